//! What travels over HTTP, as this client reads it.
//!
//! These structs are the client's own: the server writes its answers from others, so that a test which
//! runs one against the other notices when they drift apart. Unknown members are ignored.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

use threadline_core::Seq;

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thread {
    /// Its id, unique in the project.
    pub thread_id: String,
    /// Its name.
    pub name: Option<String>,
    /// Who gave the name: `auto`, `title` or `person`.
    pub name_source: Option<String>,
    /// The agent it was made for.
    pub agent_id: Option<String>,
    /// Its owner.
    pub user_id: String,
    /// Whether it is hidden from lists.
    pub archived: bool,
    /// Free facts, a JSON object.
    pub metadata: Map<String, Value>,
    /// When it was made (ISO-8601, UTC, as all times here).
    pub created_at: String,
    /// When it was last edited.
    pub updated_at: String,
    /// When a run of it last began or ended.
    pub last_run_at: Option<String>,
    /// Seq of its newest event, 0 if none.
    pub tail: Seq,
    /// Up to which event its owner has read it, 0 if never; servers of 0.1.0 do not say.
    #[serde(default)]
    pub read_seq: Seq,
    /// The incarnation of its log.
    pub epoch: String,
    /// The run that holds it.
    pub active_run: Option<Run>,
}

/// The messages of a thread as of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// The newest event that is in them: follow from here.
    pub seq: Seq,
    /// The messages, as AG-UI has them.
    pub messages: Vec<Value>,
    /// Whether older ones were left out.
    pub has_more: bool,
    /// Interrupts that wait for an answer.
    pub interrupts: Vec<Value>,
    /// Tool calls that have no result yet.
    pub pending_tool_call_ids: Vec<String>,
}

/// The state of a thread as of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadState {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// The newest event that is in it: follow from here.
    pub seq: Seq,
    /// The state.
    pub state: Value,
    /// Deltas that could not be applied.
    pub skipped_deltas: u64,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Its producer may append.
    Running,
    /// Released; it may append until its terminal event or the next start.
    Finishing,
    /// Ended by RUN_FINISHED.
    Finished,
    /// Ended by RUN_ERROR.
    Error,
    /// Ended after a stop was asked.
    Stopped,
    /// Ended without a single event.
    Abandoned,
    /// A status that this client does not know. Counts as ended.
    #[serde(other)]
    Unknown,
}

impl RunStatus {
    /// Whether the run may still append.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Finishing)
    }

    /// The word on the wire.
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

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id, unique in the thread for ever.
    pub run_id: String,
    /// Its thread, where the answer says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Its agent.
    pub agent_id: Option<String>,
    /// Where it stands.
    pub status: RunStatus,
    /// `code` of its RUN_ERROR.
    pub error_code: Option<String>,
    /// `message` of its RUN_ERROR.
    pub error_message: Option<String>,
    /// What it has used, if its terminal event says so.
    #[serde(default)]
    pub usage: Option<Value>,
    /// Seq of the event with producer_seq 1.
    pub first_seq: Seq,
    /// Seq of its newest event; `first_seq - 1` when it has none.
    pub last_seq: Seq,
    /// Number of its newest stored event, 0 if none.
    pub producer_seq: u64,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// Until when it may be silent.
    pub lease_until: Option<String>,
    /// Whether somebody asked it to stop.
    pub stop_requested: bool,
}

/// A run that was begun (or a whole one that was stored), and from where to follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedRun {
    /// The run.
    pub run: Run,
    /// The incarnation of the thread's log.
    pub epoch: String,
    /// The tail before the run: a reader that starts here sees all of it and nothing else.
    pub cursor: Seq,
}

/// What an append changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Appended {
    /// Seq of the batch's first event.
    pub first_seq: Seq,
    /// Seq of the batch's last event.
    pub last_seq: Seq,
    /// Number of the newest stored event.
    pub producer_seq: u64,
    /// The incarnation of the thread's log.
    pub epoch: String,
    /// Whether somebody asked the run to stop.
    pub stop_requested: bool,
    /// Until when the run may be silent; `None` once it has ended.
    #[serde(default)]
    pub lease_until: Option<String>,
}

/// An event with its place in the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Its position.
    pub seq: Seq,
    /// The run that appended it.
    pub run_id: Arc<str>,
    /// When it was committed.
    pub at: Arc<str>,
    /// The payload's own bytes.
    pub event: Box<RawValue>,
}

/// A page of a thread's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// Seq of its newest event.
    pub tail: Seq,
    /// The events, in order.
    pub events: Vec<Envelope>,
    /// What to pass as `after` (or, for a page asked with `before`, as `before`) for the next page.
    pub cursor: Seq,
    /// Whether there is more at this moment.
    pub has_more: bool,
}

/// A page of threads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadPage {
    /// The threads, in the order asked for.
    pub threads: Vec<Thread>,
    /// What to pass as `cursor` for the next page; `None` on the last one.
    pub next_cursor: Option<String>,
    /// Where to begin with the feed, so that list and feed together miss nothing.
    pub feed_cursor: u64,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<Run>,
    /// What to pass as `cursor` for the next page; `None` on the last one.
    pub next_cursor: Option<i64>,
}

/// One change in a user's list of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum FeedEntry {
    /// The thread is new, or not as it was.
    Upsert {
        /// Position in the feed.
        cursor: u64,
        /// The thread.
        thread_id: String,
        /// As it is now.
        thread: Box<Thread>,
    },
    /// The thread is gone.
    Delete {
        /// Position in the feed.
        cursor: u64,
        /// The thread.
        thread_id: String,
    },
}

/// A page of the feed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedPage {
    /// The changes, oldest first; at most one per thread.
    pub entries: Vec<FeedEntry>,
    /// What to pass as `after` for the next page.
    pub cursor: u64,
    /// Whether there is more at this moment.
    pub has_more: bool,
}

/// What to make a thread with.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateThread {
    /// Its id; the server makes one if there is none. With an id the request may safely be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Free facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Its owner, where the principal is a whole project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
}

/// What to change in a thread; `None` leaves a field alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PatchThread {
    /// A new name; `Some(None)` takes the name away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Option<String>>,
    /// A merge patch (RFC 7396) for the metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Hide from lists, or show again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// Whether requests are to be sent to a server, and what it stands on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Readiness {
    /// `ready`, or `degraded`: something is missing that can be done without.
    pub status: String,
    /// What it stands on: `ok` or `unavailable`.
    pub dependencies: BTreeMap<String, String>,
}
