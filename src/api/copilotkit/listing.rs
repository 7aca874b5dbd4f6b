//! A page of a user's threads, the same through both doors.

use serde::Serialize;
use utoipa::ToSchema;

use super::{intelligence::join_code, view::ThreadRecord};
use crate::{
    api::{
        ApiState,
        native::threads::{read_position, write_position},
        problem::Problem,
    },
    domain::{AgentId, Principal, limits::DEFAULT_PAGE},
    service::ListRequest,
};

/// Which threads of a user.
#[derive(Debug, Default)]
pub struct Asked {
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Whether archived ones are shown.
    pub include_archived: bool,
    /// Most threads.
    pub limit: Option<usize>,
    /// Where the page before has ended.
    pub cursor: Option<String>,
}

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadList {
    threads: Vec<ThreadRecord>,
    /// The topic of the user's list is `user_meta:` and this; the same in each list.
    join_code: String,
    /// Where the next page begins; null at the end.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// The page. The first one is remembered: a token for what comes after it is asked for next.
pub async fn page(state: &ApiState, principal: &Principal, asked: Asked) -> Result<ThreadList, Problem> {
    let request = ListRequest {
        include_archived: asked.include_archived,
        agent: asked.agent,
        after: asked.cursor.as_deref().map(read_position).transpose()?,
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
        next_cursor: page.next.as_ref().map(write_position),
    })
}
