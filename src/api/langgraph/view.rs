//! Threads and runs as LangGraph's clients read them.

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use threadline_core::{Run, RunStatus, Thread, ThreadStatus};
use threadline_engine::QueuedTurn;
use utoipa::ToSchema;

/// Thread as clients read it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphThread)]
pub struct ThreadView {
    thread_id: String,
    created_at: String,
    updated_at: String,
    state_updated_at: String,
    /// Metadata of the thread. `graph_id` and `assistant_id` are its agent, unless the metadata have these members.
    #[schema(value_type = Object)]
    metadata: Value,
    /// `idle`, `busy` (a run is active), `interrupted` (an interrupt waits for an answer) or `error` (the last run failed).
    status: &'static str,
    #[schema(value_type = Object)]
    config: Value,
    /// State of the thread with its messages, or null if they are not read.
    #[schema(required, value_type = Option<Object>)]
    pub values: Option<Box<RawValue>>,
    /// Open interrupts by the id of the task that waits for them.
    #[schema(value_type = Object)]
    pub interrupts: Value,
    /// Failure of the last run, or null.
    #[schema(required, value_type = Option<Object>)]
    error: Option<Value>,
}

/// Metadata of a thread with its agent.
pub fn metadata_of(thread: &Thread) -> Map<String, Value> {
    let mut metadata: Map<String, Value> = serde_json::from_str(&thread.metadata).unwrap_or_default();
    if let Some(agent) = &thread.agent {
        for name in ["graph_id", "assistant_id"] {
            metadata.entry(name).or_insert_with(|| agent.as_str().into());
        }
    }
    metadata
}

/// State of a thread by the name that LangGraph gives it.
pub fn status_of(thread: &Thread) -> &'static str {
    match thread.status() {
        ThreadStatus::Running => "busy",
        ThreadStatus::Waiting => "interrupted",
        ThreadStatus::Failed => "error",
        ThreadStatus::Idle => "idle",
    }
}

impl ThreadView {
    pub fn new(thread: &Thread) -> Self {
        let changed = thread.last_run_at.map_or(thread.updated_at, |at| at.max(thread.updated_at));
        let failed = thread.last_run.as_ref().filter(|last| last.status.is_failure());
        Self {
            thread_id: thread.id.to_string(),
            created_at: thread.created_at.to_string(),
            updated_at: changed.to_string(),
            state_updated_at: thread.last_run_at.unwrap_or(thread.created_at).to_string(),
            metadata: metadata_of(thread).into(),
            status: status_of(thread),
            config: json!({ "configurable": {} }),
            values: None,
            interrupts: json!({}),
            error: failed.map(|last| json!({ "error": last.error_code, "message": last.error_code })),
        }
    }
}

/// Run, or a turn that waits to become one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LangGraphRun)]
pub struct RunView {
    run_id: String,
    thread_id: String,
    /// Agent of the run; empty for a run of a producer that named none.
    assistant_id: String,
    created_at: String,
    updated_at: String,
    /// `pending` (waits in the queue), `running`, `success`, `error` or `interrupted` (stopped, or waits for an answer).
    status: &'static str,
    #[schema(value_type = Object)]
    metadata: Value,
    /// `input` of a run that waits: its messages.
    #[schema(value_type = Object)]
    kwargs: Value,
    multitask_strategy: &'static str,
}

impl RunView {
    /// A run that has begun. `waits` is true if it ended with an interrupt that is still open.
    pub fn new(thread: &Thread, run: &Run, waits: bool) -> Self {
        let status = match run.status {
            RunStatus::Running | RunStatus::Finishing => "running",
            RunStatus::Finished if waits => "interrupted",
            RunStatus::Finished => "success",
            RunStatus::Stopped => "interrupted",
            RunStatus::Error | RunStatus::Abandoned => "error",
        };
        Self {
            run_id: run.id.to_string(),
            thread_id: thread.id.to_string(),
            assistant_id: run.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
            created_at: run.started_at.to_string(),
            updated_at: run.ended_at.unwrap_or(run.started_at).to_string(),
            status,
            metadata: json!({}),
            kwargs: json!({}),
            multitask_strategy: "enqueue",
        }
    }

    /// A turn that waits, with its messages in LangChain's form.
    pub fn queued(thread: &Thread, turn: &QueuedTurn, messages: &[Box<RawValue>]) -> Self {
        Self {
            run_id: turn.run.to_string(),
            thread_id: thread.id.to_string(),
            assistant_id: turn.agent.to_string(),
            created_at: turn.at.to_string(),
            updated_at: turn.at.to_string(),
            status: "pending",
            metadata: json!({}),
            kwargs: json!({ "input": { "messages": messages } }),
            multitask_strategy: "enqueue",
        }
    }

    pub fn status(&self) -> &'static str {
        self.status
    }
}
