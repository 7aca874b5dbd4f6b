//! Views of threads, runs and the feed, as the native API sends them.

mod branch;
mod started;

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use threadline_core::{
    Epoch, FeedChange, FeedEntry, Hold, LastRun, NameSource, Principal, QueueState, Run, RunStatus, Scope, Thread,
    ThreadId, Timestamp,
};
use threadline_engine::{AppendReceipt, QueuedTurn, ThreadQueue};
use utoipa::ToSchema;

pub use branch::ForkedFromView;
pub use started::StartedView;

/// A thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadView {
    thread_id: String,
    #[schema(required)]
    name: Option<String>,
    /// The origin of the name. Threadline never overwrites a name that a person set.
    #[schema(required, value_type = Option<String>, example = "person")]
    name_source: Option<NameSource>,
    #[schema(required)]
    agent_id: Option<String>,
    user_id: String,
    archived: bool,
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    created_at: Timestamp,
    /// Last edit; appends do not count.
    #[schema(value_type = String)]
    updated_at: Timestamp,
    /// The time at which a run last started or ended.
    #[schema(required, value_type = Option<String>)]
    last_run_at: Option<Timestamp>,
    /// Seq of the newest event, 0 if there is none.
    tail: u64,
    /// Seq of the newest event that the user has read; 0 if none.
    read_seq: u64,
    /// The incarnation of the log; cursors belong to it.
    epoch: String,
    #[schema(required)]
    active_run: Option<RunView>,
    /// The newest run, active or not; null if the thread had no run.
    #[schema(required)]
    last_run: Option<LastRunView>,
    /// Number of interrupts that wait for an answer; `GET /v1/interrupts` lists them.
    open_interrupts: u64,
    /// Number of turns that wait in the queue.
    queued: u64,
    /// The reason why the queue rests until it is released: `stop`, `error` or `hand`; null if it does not.
    #[schema(required, value_type = Option<String>, example = "stop")]
    held: Option<&'static str>,
    /// The origin of the first events, if the thread is a fork.
    #[schema(required)]
    forked_from: Option<ForkedFromView>,
    /// True if the conversation has, or had, other branches: `GET /v1/threads/{threadId}/branches` lists them.
    branched: bool,
    /// False of a branch that lists and feeds leave out, because they show another one of its conversation.
    listed: bool,
}

impl ThreadView {
    pub fn new(thread: &Thread) -> Self {
        Self {
            thread_id: thread.id.to_string(),
            name: thread.name.clone(),
            name_source: thread.name_source,
            agent_id: thread.agent.as_ref().map(ToString::to_string),
            user_id: thread.user.to_string(),
            archived: thread.archived,
            // Threadline stored the metadata as an object; any other value reads as an empty object.
            metadata: RawValue::from_string(thread.metadata.clone()).unwrap_or_else(|_| empty_object()),
            created_at: thread.created_at,
            updated_at: thread.updated_at,
            last_run_at: thread.last_run_at,
            tail: thread.tail,
            read_seq: thread.read_seq,
            epoch: thread.epoch.to_string(),
            active_run: thread.active_run.as_ref().map(RunView::new),
            last_run: thread.last_run.as_ref().map(LastRunView::new),
            open_interrupts: thread.open_interrupts,
            queued: thread.queue.queued,
            held: thread.queue.held.map(Hold::as_str),
            forked_from: thread.branch.forked_from.as_ref().map(ForkedFromView::new),
            branched: thread.branch.family.is_some(),
            listed: thread.branch.listed,
        }
    }

    /// The view for this principal: without the scope `read` it shows the thread's ids, epoch, tail and creation.
    #[must_use]
    pub fn seen_by(self, principal: &Principal) -> Self {
        if principal.scopes.contains(Scope::Read) {
            return self;
        }
        let updated_at = self.created_at;
        Self {
            name: None,
            name_source: None,
            agent_id: None,
            archived: false,
            metadata: empty_object(),
            updated_at,
            last_run_at: None,
            read_seq: 0,
            active_run: None,
            last_run: None,
            open_interrupts: 0,
            queued: 0,
            held: None,
            forked_from: None,
            branched: false,
            listed: true,
            ..self
        }
    }
}

/// The state of a thread's newest run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRunView {
    run_id: String,
    #[schema(value_type = String, example = "error")]
    status: RunStatus,
    /// The `code` of its RUN_ERROR, if it has one.
    #[schema(required)]
    error_code: Option<String>,
    /// The time at which it ended; null while it is active.
    #[schema(required, value_type = Option<String>)]
    ended_at: Option<Timestamp>,
}

impl LastRunView {
    fn new(LastRun { id, status, error_code, ended_at }: &LastRun) -> Self {
        Self { run_id: id.to_string(), status: *status, error_code: error_code.clone(), ended_at: *ended_at }
    }
}

fn empty_object() -> Box<RawValue> {
    serde_json::value::to_raw_value(&serde_json::json!({})).unwrap_or_default()
}

/// A run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    run_id: String,
    #[schema(required)]
    agent_id: Option<String>,
    #[schema(value_type = String, example = "running")]
    status: RunStatus,
    #[schema(required)]
    error_code: Option<String>,
    #[schema(required)]
    error_message: Option<String>,
    /// The token usage by provider and model, from the terminal event: AG-UI's TokenUsage.
    #[schema(required, value_type = Option<Vec<Object>>)]
    usage: Option<Box<RawValue>>,
    /// Seq of the event with producerSeq 1.
    first_seq: u64,
    /// Seq of its newest event; `firstSeq - 1` if it has none.
    last_seq: u64,
    /// The newest stored producerSeq, 0 if none.
    producer_seq: u64,
    #[schema(value_type = String)]
    started_at: Timestamp,
    #[schema(required, value_type = Option<String>)]
    ended_at: Option<Timestamp>,
    /// The expiry of the lease; null once the run has ended, and for a run that the server drives.
    #[schema(required, value_type = Option<String>)]
    lease_until: Option<Timestamp>,
    stop_requested: bool,
    /// The author: `agent:<id>`, `key:<id>`, `user:<id>`, `operator` or `development`; null for a run from before authors were
    /// stored.
    #[schema(required, example = "agent:demo")]
    author: Option<String>,
    /// The caller that asked for the run, in the same form.
    #[schema(required, example = "user:ann")]
    asked_by: Option<String>,
    /// The number of the present attempt, from 1. A run that the server drives gets a new attempt when another node takes it
    /// over, and a producer's run when another process takes it up.
    attempt: u64,
    /// True if the server drives the run: then nobody else writes into it.
    driven: bool,
}

impl RunView {
    pub fn new(run: &Run) -> Self {
        Self {
            run_id: run.id.to_string(),
            agent_id: run.agent.as_ref().map(ToString::to_string),
            author: run.author.as_ref().map(ToString::to_string),
            asked_by: run.asked_by.as_ref().map(ToString::to_string),
            attempt: run.attempt,
            driven: run.driven,
            status: run.status,
            error_code: run.error_code.clone(),
            error_message: run.error_message.clone(),
            usage: run.usage.clone().and_then(|usage| RawValue::from_string(usage).ok()),
            first_seq: run.first_seq,
            last_seq: run.last_seq(),
            producer_seq: run.producer_seq,
            started_at: run.started_at,
            ended_at: run.ended_at,
            lease_until: run.lease_until.filter(|_| !run.driven),
            stop_requested: run.stop_requested_at.is_some(),
        }
    }

    /// The view for this principal: without the scope `read` it shows the run's id, status, seqs, times and lease.
    #[must_use]
    pub fn seen_by(self, principal: &Principal) -> Self {
        if principal.scopes.contains(Scope::Read) {
            return self;
        }
        Self {
            agent_id: None,
            author: None,
            asked_by: None,
            error_code: None,
            error_message: None,
            usage: None,
            ..self
        }
    }
}

/// Members of a run that no problem shows: problems reach callers without the scope `read`.
const NOT_IN_PROBLEMS: [&str; 4] = ["author", "askedBy", "errorMessage", "usage"];

/// A run as problems show it.
pub fn problem_run(run: &Run) -> Value {
    let mut view = json!(RunView::new(run));
    if let Some(members) = view.as_object_mut() {
        members.retain(|name, _| !NOT_IN_PROBLEMS.contains(&name.as_str()));
    }
    view
}

/// The response to an append.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptView {
    first_seq: u64,
    last_seq: u64,
    /// producerSeq of the last event of this append.
    producer_seq: u64,
    epoch: String,
    /// True if a stop of the run was requested: end it soon.
    stop_requested: bool,
    /// The expiry of the lease; null once the run has ended.
    #[schema(required, value_type = Option<String>)]
    lease_until: Option<Timestamp>,
}

impl ReceiptView {
    pub fn new(receipt: &AppendReceipt) -> Self {
        Self {
            first_seq: receipt.first_seq,
            last_seq: receipt.last_seq,
            producer_seq: receipt.producer_seq,
            epoch: receipt.epoch.to_string(),
            stop_requested: receipt.stop_requested,
            lease_until: receipt.lease_until,
        }
    }
}

/// A turn that waits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurnView {
    /// The ID of the run that it becomes.
    run_id: String,
    agent_id: String,
    /// The caller that asked, in the form of a run's `askedBy`.
    #[schema(required, example = "user:ann")]
    asked_by: Option<String>,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    at: Timestamp,
    /// The messages that its caller has sent, each with an ID.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Box<RawValue>>,
}

/// The queue of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    thread_id: String,
    /// The epoch of the log.
    epoch: String,
    /// A number that grows with every change of the queue.
    version: u64,
    /// The reason why the queue rests until it is released: `stop`, `error` or `hand`; null if it does not. It also rests while interrupts of the
    /// thread are open.
    #[schema(required, value_type = Option<String>, example = "stop")]
    held: Option<&'static str>,
    /// The turns, the next one first.
    items: Vec<QueuedTurnView>,
}

impl QueueView {
    /// The view of a queue; `messages` are those of a turn.
    pub fn new(thread: &ThreadId, queue: &ThreadQueue, messages: impl Fn(&QueuedTurn) -> Vec<Box<RawValue>>) -> Self {
        let items = queue.turns.iter().map(|turn| QueuedTurnView {
            run_id: turn.run.to_string(),
            agent_id: turn.agent.to_string(),
            asked_by: turn.asked_by.as_ref().map(ToString::to_string),
            at: turn.at,
            messages: messages(turn),
        });
        Self {
            thread_id: thread.to_string(),
            epoch: queue.epoch.to_string(),
            version: queue.state.version,
            held: queue.state.held.map(Hold::as_str),
            items: items.collect(),
        }
    }

    /// The view for this principal: without the scope `read` it shows the ids of the turns.
    #[must_use]
    pub fn seen_by(mut self, principal: &Principal) -> Self {
        if !principal.scopes.contains(Scope::Read) {
            for item in &mut self.items {
                (item.asked_by, item.messages) = (None, Vec::new());
            }
        }
        self
    }
}

/// The state of a queue, as followers of its thread are told of it. `GET /v1/threads/{threadId}/queue` has the turns.
pub fn queue_frame(epoch: Epoch, queue: QueueState) -> Value {
    let QueueState { version, queued, held } = queue;
    json!({ "epoch": epoch.to_string(), "version": version, "queued": queued, "held": held.map(Hold::as_str) })
}

/// The newest change of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedEntryView {
    /// Position in the feed.
    cursor: u64,
    /// `upsert` or `delete`.
    r#type: &'static str,
    thread_id: String,
    /// The current thread; absent if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadView>,
}

impl FeedEntryView {
    pub fn new(entry: &FeedEntry) -> Self {
        let (r#type, thread) = match &entry.change {
            FeedChange::Upsert(thread) => ("upsert", Some(ThreadView::new(thread))),
            FeedChange::Delete => ("delete", None),
        };
        Self { cursor: entry.cursor, r#type, thread_id: entry.thread_id.to_string(), thread }
    }
}
