//! Page of a user's threads, the same for both APIs.

use serde::Serialize;
use threadline_core::{AgentId, ListOrder, Principal, limits::DEFAULT_PAGE};
use threadline_engine::ListRequest;
use threadline_http::{
    cursor::{read_position, write_position},
    problem::Problem,
};
use utoipa::ToSchema;

use super::{intelligence::join_code, view::ThreadRecord};
use crate::api::ApiState;

/// Filters and position of a page of a user's threads.
#[derive(Debug, Default)]
pub struct Asked {
    /// Only threads of this agent; of all agents if absent.
    pub agent: Option<AgentId>,
    /// True if archived threads are included.
    pub include_archived: bool,
    /// Maximum number of threads; [`DEFAULT_PAGE`] if absent.
    pub limit: Option<usize>,
    /// `nextCursor` of the previous page; absent for the first page.
    pub cursor: Option<String>,
}

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadList {
    threads: Vec<ThreadRecord>,
    /// The topic of the user's list is `user_meta:` and this; the same in each list.
    join_code: String,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Reads a page of threads. The feed position of the first page is remembered: the client next requests a token for the
/// changes after it.
pub async fn page(state: &ApiState, principal: &Principal, asked: Asked) -> Result<ThreadList, Problem> {
    let request = ListRequest {
        include_archived: asked.include_archived,
        agent: asked.agent,
        after: asked.cursor.as_deref().map(|cursor| read_position(cursor, ListOrder::Recent)).transpose()?,
        limit: asked.limit.unwrap_or(DEFAULT_PAGE),
        ..ListRequest::default()
    };
    let is_first = request.after.is_none();
    let page = state.service.threads.list(principal, request).await?;
    if is_first {
        state.copilotkit.lists.read(principal, page.feed_cursor);
    }
    Ok(ThreadList {
        threads: page.threads.iter().map(ThreadRecord::from).collect(),
        join_code: join_code(state, principal).await?,
        next_cursor: page.next.as_ref().map(|next| write_position(next, ListOrder::Recent)),
    })
}
