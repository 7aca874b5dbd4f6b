//! JSON documents of the HTTP API, as this client reads them.
//!
//! The structs are the client's own: the server writes its answers from others, so that a test which runs one against
//! the other notices a difference. Unknown members are ignored.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use super::{ForkedFrom, Hold};
use threadline_core::Seq;

/// Thread, as the server shows it to its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// Id of the thread, unique in the project.
    pub thread_id: String,
    /// Name of the thread; `None` if it has none.
    pub name: Option<String>,
    /// Source of the name: `auto`, `title` or `person`; `None` if there is no name.
    pub name_source: Option<String>,
    /// Id of the agent that the thread was made for, if any.
    pub agent_id: Option<String>,
    /// Id of the user who owns the thread.
    pub user_id: String,
    /// True if the thread is hidden from lists.
    pub archived: bool,
    /// Metadata of the application: a JSON object.
    pub metadata: Map<String, Value>,
    /// Time at which the thread was made (ISO-8601, UTC, as all times here).
    pub created_at: String,
    /// Time of the last edit.
    pub updated_at: String,
    /// Time at which a run of the thread last began or ended; `None` if it had no run.
    pub last_run_at: Option<String>,
    /// Seq of the newest event, 0 if there is none.
    pub tail: Seq,
    /// Seq up to which the owner has read the thread, 0 if never. Absent in answers of servers 0.1.0, and then 0.
    #[serde(default)]
    pub read_seq: Seq,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Run that holds the thread; `None` if no run is active.
    pub active_run: Option<Run>,
    /// State of the newest run, active or not; `None` if the thread had no run. Absent in answers of servers 0.1.0, and
    /// then `None`.
    #[serde(default)]
    pub last_run: Option<LastRun>,
    /// Number of interrupts that wait for an answer. Absent in answers of servers 0.1.0, and then 0.
    #[serde(default)]
    pub open_interrupts: u64,
    /// Number of turns that wait in the queue. Absent in answers of servers 0.1.0, and then 0.
    #[serde(default)]
    pub queued: u64,
    /// Reason why the queue rests; `None` if it moves. Absent in answers of servers 0.1.0, and then `None`.
    #[serde(default)]
    pub held: Option<Hold>,
    /// Origin of the first events, if the thread is a fork. Absent in answers of servers 0.1.0, and then `None`.
    #[serde(default)]
    pub forked_from: Option<ForkedFrom>,
    /// True if the conversation has other branches. Absent in answers of servers 0.1.0, and then false.
    #[serde(default)]
    pub branched: bool,
    /// False of a branch that lists and feeds leave out. Absent in answers of servers 0.1.0, and then true.
    #[serde(default = "listed")]
    pub listed: bool,
}

fn listed() -> bool {
    true
}

/// State of a thread's newest run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// Id of the run.
    pub run_id: String,
    /// State of the run.
    pub status: RunStatus,
    /// `code` of the run's RUN_ERROR, if it has one.
    pub error_code: Option<String>,
    /// Time at which the run ended; `None` while it is active.
    pub ended_at: Option<String>,
}

/// Messages of a thread as of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the newest event that the messages include: follow the thread from here.
    pub seq: Seq,
    /// Messages in order, as AG-UI has them.
    pub messages: Vec<Value>,
    /// True if older messages were left out.
    pub has_more: bool,
    /// Interrupts that wait for an answer, as AG-UI has them.
    pub interrupts: Vec<Value>,
    /// Ids of tool calls that have no result yet.
    pub pending_tool_call_ids: Vec<String>,
}

/// State of a thread as of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadState {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the newest event that the state includes: follow the thread from here.
    pub seq: Seq,
    /// State as JSON; an empty object before the first event of state.
    pub state: Value,
    /// Number of deltas that could not be applied.
    pub skipped_deltas: u64,
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The producer may append.
    Running,
    /// The run was released; its producer may append until the terminal event or the next start.
    Finishing,
    /// The run ended with RUN_FINISHED.
    Finished,
    /// The run ended with RUN_ERROR.
    Error,
    /// The run ended after a stop was requested.
    Stopped,
    /// The run ended without a single event.
    Abandoned,
    /// A status that this client does not know. Counts as ended.
    #[serde(other)]
    Unknown,
}

impl RunStatus {
    /// True if the run may still append.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Finishing)
    }

    /// Name of the status on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finishing => "finishing",
            Self::Finished => "finished",
            Self::Error => "error",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
        }
    }
}

/// Attempt of a run whose answer names none.
fn first_attempt() -> u64 {
    1
}

/// Run of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Id of the run, unique in the thread for ever.
    pub run_id: String,
    /// Id of the thread, if the answer names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Id of the agent that the run belongs to, if any.
    pub agent_id: Option<String>,
    /// Author of the run, such as `agent:helper` or `user:ann`.
    #[serde(default)]
    pub author: Option<String>,
    /// Caller that asked for the run, in the same form.
    #[serde(default)]
    pub asked_by: Option<String>,
    /// Number of the run's present attempt, from 1.
    #[serde(default = "first_attempt")]
    pub attempt: u64,
    /// True if the server drives the run.
    #[serde(default)]
    pub driven: bool,
    /// State of the run.
    pub status: RunStatus,
    /// `code` of the run's RUN_ERROR, if it has one.
    pub error_code: Option<String>,
    /// `message` of the run's RUN_ERROR, if it has one.
    pub error_message: Option<String>,
    /// Usage of the run by provider and model, if its terminal event reports it.
    #[serde(default)]
    pub usage: Option<Value>,
    /// Seq of the event with producer_seq 1.
    pub first_seq: Seq,
    /// Seq of the newest event; `first_seq - 1` if there is none.
    pub last_seq: Seq,
    /// Number of the newest stored event, 0 if there is none.
    pub producer_seq: u64,
    /// Time at which the run began.
    pub started_at: String,
    /// Time at which the run ended; `None` while it is active.
    pub ended_at: Option<String>,
    /// End of the lease, until which the producer may send nothing; `None` once the run has ended.
    pub lease_until: Option<String>,
    /// True if a client has requested the run to stop.
    pub stop_requested: bool,
}

/// Run that was started (or stored completely), and the cursor from which to follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedRun {
    /// Thread of the run: of a start in a fork, the fork. Absent in answers of servers 0.1.0, and then empty.
    #[serde(default)]
    pub thread_id: String,
    /// The run, as it is after the request.
    pub run: Run,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Tail before the run: a reader that starts here sees all of the run and no event before it.
    pub cursor: Seq,
}

/// Receipt of an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Appended {
    /// Seq of the batch's first event.
    pub first_seq: Seq,
    /// Seq of the batch's last event.
    pub last_seq: Seq,
    /// Number of the run's newest stored event.
    pub producer_seq: u64,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// True if a client has requested the run to stop.
    pub stop_requested: bool,
    /// End of the lease, until which the producer may send nothing; `None` once the run has ended.
    #[serde(default)]
    pub lease_until: Option<String>,
}

/// Event with its position in the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Position of the event in the log.
    pub seq: Seq,
    /// Id of the run that appended the event.
    pub run_id: Arc<str>,
    /// Time of the commit.
    pub at: Arc<str>,
    /// Payload of the event, byte for byte.
    pub event: Box<RawValue>,
}

/// Page of a thread's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the thread's newest event.
    pub tail: Seq,
    /// Events of the page in ascending order.
    pub events: Vec<Envelope>,
    /// Cursor of the next page in the same direction: the value for [`EventQuery::cursor`](crate::EventQuery::cursor).
    pub next_cursor: String,
    /// True if there are more events at this moment.
    pub has_more: bool,
}

/// Page of a list of threads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadPage {
    /// Threads in the requested order.
    pub threads: Vec<Thread>,
    /// Cursor of the next page; `None` on the last one.
    pub next_cursor: Option<String>,
    /// Position from which to read the feed, so that list and feed together miss no change.
    pub feed_cursor: u64,
    /// Epoch of the feed in which `feed_cursor` is a position.
    pub feed_epoch: String,
}

/// Page of a thread's runs, newest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    /// Runs of the page, newest first.
    pub runs: Vec<Run>,
    /// Cursor of the next page; `None` on the last one.
    pub next_cursor: Option<String>,
}

/// One change in a user's list of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum FeedEntry {
    /// The thread is new, or has changed.
    Upsert {
        /// Position of the change in the feed.
        cursor: u64,
        /// Id of the thread.
        thread_id: String,
        /// Thread as it is now.
        thread: Box<Thread>,
    },
    /// The thread was deleted.
    Delete {
        /// Position of the change in the feed.
        cursor: u64,
        /// Id of the thread.
        thread_id: String,
    },
}

/// Page of a user's feed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedPage {
    /// Incarnation of the feed, to which its cursors belong.
    pub epoch: String,
    /// Changes, oldest first; at most one per thread.
    pub entries: Vec<FeedEntry>,
    /// Feed position of the last entry.
    pub cursor: u64,
    /// Cursor of the next page: the value for [`FeedQuery::cursor`](crate::FeedQuery::cursor).
    pub next_cursor: String,
    /// True if there are more changes at this moment.
    pub has_more: bool,
}

/// Request to make a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateThread {
    /// Id of the thread; the server makes one if absent. With an id the request may safely be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Name of the thread, if it is to have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the agent that the thread is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Metadata of the application: a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Id of the owner, if the principal is a complete project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
}

/// Changes of a thread; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PatchThread {
    /// New name; `Some(None)` removes the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Option<String>>,
    /// Merge patch (RFC 7396) for the metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// True hides the thread from lists, false shows it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// Readiness of a server, with the state of its dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Readiness {
    /// `ready`, or `degraded`: a dependency is missing that the server can do without.
    pub status: String,
    /// State of each dependency by its name: `ok` or `unavailable`.
    pub dependencies: BTreeMap<String, String>,
}
