//! REST route of the inbox: the interrupts that wait for an answer.

use axum::{Json as Answer, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    AgentId, Author, ListOrder, OpenInterrupt, Thread, Timestamp, UserId,
    limits::{DEFAULT_PAGE, MAX_INTERRUPT_SUMMARY_BYTES},
};
use threadline_engine::InboxRequest;
use threadline_http::{
    cursor::{read_position, write_position},
    extract::{Caller, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// Filter and page of an inbox.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InboxParams {
    /// Only threads of this agent.
    #[param(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// Most threads in the page: 1 to 100. Default 50. A page may have fewer.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// User whose interrupts are listed, if the API key is used without a user.
    #[param(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// An interrupt that waits for an answer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenInterruptView {
    thread_id: String,
    #[schema(required)]
    thread_name: Option<String>,
    user_id: String,
    /// Agent to which a run with the answer goes: the one that requested it, else the agent of the thread.
    #[schema(required)]
    agent_id: Option<String>,
    /// Run that ended with the request.
    run_id: String,
    /// Author of that run.
    #[schema(required)]
    author: Option<String>,
    /// Seq of the RUN_FINISHED with the request.
    seq: u64,
    /// Epoch of the log, to which `seq` belongs.
    epoch: String,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    opened_at: Timestamp,
    /// AG-UI's Interrupt. One of more than 8 KiB, or beyond 64 KiB of its run's, has only `id`, the first 256 bytes of
    /// `reason`, `message` and `toolCallId`, and `truncated`: true; `GET /v1/threads/{threadId}/messages` returns it in
    /// full.
    #[schema(value_type = Object)]
    interrupt: Box<RawValue>,
}

const _: () = assert!(MAX_INTERRUPT_SUMMARY_BYTES == 256, "the API description says so");

impl OpenInterruptView {
    fn new(thread: &Thread, open: OpenInterrupt) -> Self {
        let agent = open.author.as_ref().and_then(Author::agent_id);
        Self {
            thread_id: thread.id.to_string(),
            thread_name: thread.name.clone(),
            user_id: thread.user.to_string(),
            agent_id: agent.map(str::to_owned).or_else(|| thread.agent.as_ref().map(ToString::to_string)),
            run_id: open.run.to_string(),
            author: open.author.map(|author| author.to_string()),
            seq: open.seq,
            epoch: thread.epoch.to_string(),
            opened_at: open.at,
            interrupt: RawValue::from_string(open.body).unwrap_or_default(),
        }
    }
}

/// A page of an inbox.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxView {
    /// Interrupts of the thread whose run ended last come first; those of one thread are oldest first.
    interrupts: Vec<OpenInterruptView>,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
    /// The inbox plus the feed after this cursor is complete: a thread's `openInterrupts` changes with its interrupts.
    feed_cursor: u64,
    /// The epoch of `feedCursor`: 16 zeros if the feed has no entry yet.
    feed_epoch: String,
}

/// Lists the open interrupts of all of a user's threads that are not archived and have no active run.
#[utoipa::path(get, path = "/v1/interrupts", tag = "threads", params(InboxParams), responses(
    (status = 200, description = "A page", body = InboxView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<InboxParams>,
) -> Result<Answer<InboxView>, Problem> {
    let after = params.cursor.as_deref().map(|cursor| read_position(cursor, ListOrder::Recent)).transpose()?;
    let limit = params.limit.unwrap_or(DEFAULT_PAGE);
    let request = InboxRequest { user: params.user_id, agent: params.agent_id, after, limit };
    let page = state.service.threads.inbox(&principal, request).await?;
    let open = page.threads.into_iter().flat_map(|(thread, open)| {
        open.into_iter().map(move |interrupt| OpenInterruptView::new(&thread, interrupt)).collect::<Vec<_>>()
    });
    Ok(Answer(InboxView {
        interrupts: open.collect(),
        next_cursor: page.next.as_ref().map(|next| write_position(next, ListOrder::Recent)),
        feed_cursor: page.feed_cursor.position,
        feed_epoch: page.feed_cursor.epoch.to_string(),
    }))
}
