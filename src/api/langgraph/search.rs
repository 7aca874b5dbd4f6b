//! Searches and counts of threads.

use std::cmp::Ordering;

use axum::{
    Json as Answer,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use threadline_core::{
    ListOrder, Principal, Thread, ThreadId, ThreadStatus,
    limits::{MAX_LANGGRAPH_PAGE, MAX_PAGE, MAX_PAGE_BYTES, MAX_SEARCHED_THREADS, SEARCHED_ROW_BYTES},
};
use threadline_engine::{ListRequest, LookupError};
use threadline_http::{
    extract::{Caller, Json},
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::ToSchema;

use super::{
    assistants::{page_of, paged},
    states::has_all,
    threads::with_values,
    view::{ThreadView, metadata_of, status_of},
};
use crate::api::ApiState;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LangGraphThreadStatus)]
enum Status {
    Idle,
    Busy,
    Interrupted,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LangGraphSortBy)]
enum SortBy {
    ThreadId,
    Status,
    CreatedAt,
    UpdatedAt,
    StateUpdatedAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LangGraphSortOrder)]
enum SortOrder {
    Asc,
    Desc,
}

/// Filter, order and page of a search.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphThreadSearch)]
pub struct ThreadSearch {
    /// Only threads with these metadata. `graph_id` and `assistant_id` are the thread's agent.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Only threads with these ids.
    #[schema(value_type = Option<Vec<String>>)]
    ids: Option<Vec<ThreadId>>,
    status: Option<Status>,
    /// Not supported: empty or absent.
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// 1 to 1000. Default 10.
    limit: Option<usize>,
    offset: Option<usize>,
    /// Default: by last run, else last edit, newest first.
    sort_by: Option<SortBy>,
    sort_order: Option<SortOrder>,
    /// Members that the client reads. Without `values` among them, values are null.
    select: Option<Vec<String>>,
}

impl ThreadSearch {
    fn check(&self) -> Result<(), Problem> {
        if self.values.as_ref().is_some_and(|values| !values.is_empty()) {
            return Err(Problem::invalid("values is not supported: filter by metadata, ids or status"));
        }
        if self.ids.as_ref().is_some_and(|ids| ids.len() > MAX_LANGGRAPH_PAGE) {
            return Err(Problem::invalid(format!("ids has more than {MAX_LANGGRAPH_PAGE} items")));
        }
        Ok(())
    }

    fn fits(&self, thread: &Thread) -> bool {
        let status = |status: Status| {
            status_of(thread)
                == match status {
                    Status::Idle => "idle",
                    Status::Busy => "busy",
                    Status::Interrupted => "interrupted",
                    Status::Error => "error",
                }
        };
        let has_metadata = |wanted: &Map<String, Value>| has_all(&metadata_of(thread).into(), wanted);
        self.status.is_none_or(status) && self.metadata.as_ref().is_none_or(has_metadata)
    }

    /// True if the client asks for the order of the store.
    fn is_in_order(&self) -> bool {
        matches!((self.sort_by, self.sort_order), (None | Some(SortBy::UpdatedAt), None | Some(SortOrder::Desc)))
    }

    fn compare(&self, one: &Thread, other: &Thread) -> Ordering {
        let updated = |thread: &Thread| thread.last_run_at.map_or(thread.updated_at, |at| at.max(thread.updated_at));
        let order = match self.sort_by.unwrap_or(SortBy::UpdatedAt) {
            SortBy::ThreadId => one.id.as_str().cmp(other.id.as_str()),
            SortBy::Status => status_of(one).cmp(status_of(other)),
            SortBy::CreatedAt => one.created_at.cmp(&other.created_at),
            SortBy::UpdatedAt | SortBy::StateUpdatedAt => updated(one).cmp(&updated(other)),
        };
        let order = order.then_with(|| one.id.as_str().cmp(other.id.as_str()));
        if self.sort_order == Some(SortOrder::Asc) { order } else { order.reverse() }
    }

    /// Threads that match. At most `most` of them are read if the order is that of the store.
    async fn found(&self, state: &ApiState, principal: &Principal, most: usize) -> Result<Vec<Thread>, Problem> {
        self.check()?;
        let mut found = match &self.ids {
            Some(ids) => self.named(state, principal, ids).await?,
            None => self.listed(state, principal, most).await?,
        };
        if self.ids.is_some() || !self.is_in_order() {
            found.sort_by(|one, other| self.compare(one, other));
        }
        Ok(found)
    }

    async fn named(&self, state: &ApiState, principal: &Principal, ids: &[ThreadId]) -> Result<Vec<Thread>, Problem> {
        let mut found: Vec<Thread> = Vec::new();
        let mut work = state.service.queue.begin(principal).await?;
        for id in ids {
            work.go_on().await?;
            work.done(SEARCHED_ROW_BYTES, 1);
            match state.service.threads.get(principal, id).await {
                Ok(thread) if self.fits(&thread) && found.iter().all(|other| other.id != thread.id) => {
                    found.push(thread)
                }
                Ok(_) | Err(LookupError::ThreadNotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    async fn listed(&self, state: &ApiState, principal: &Principal, most: usize) -> Result<Vec<Thread>, Problem> {
        let status = self.status.map(|status| match status {
            Status::Idle => ThreadStatus::Idle,
            Status::Busy => ThreadStatus::Running,
            Status::Interrupted => ThreadStatus::Waiting,
            Status::Error => ThreadStatus::Failed,
        });
        let (mut found, mut seen, mut after) = (Vec::new(), 0, None);
        let mut work = state.service.queue.begin(principal).await?;
        loop {
            work.go_on().await?;
            let request =
                ListRequest { status, order: ListOrder::Recent, after, limit: MAX_PAGE, ..ListRequest::default() };
            let page = state.service.threads.list(principal, request).await?;
            seen += page.threads.len();
            work.done(page.threads.len() * SEARCHED_ROW_BYTES, page.threads.len());
            found.extend(page.threads.into_iter().filter(|thread| self.fits(thread)));
            if page.next.is_none() || self.is_in_order() && found.len() >= most {
                return Ok(found);
            }
            if seen >= MAX_SEARCHED_THREADS {
                return Err(Problem::invalid(format!(
                    "the search has looked at {seen} threads, the most that one request may look at: \
                     narrow it by status, or search in the default order with a smaller offset"
                )));
            }
            after = page.next;
        }
    }

    fn wants_values(&self) -> bool {
        self.select.as_ref().is_none_or(|select| select.iter().any(|name| name == "values"))
    }
}

/// Lists threads. Of a page whose values are larger than 4 MiB together, those of the later threads are null.
#[utoipa::path(post, path = "/langgraph/threads/search", tag = "langgraph", request_body = ThreadSearch, responses(
    (status = 200, description = "The threads", body = Vec<ThreadView>,
        headers(("X-Pagination-Next" = usize, description = "Offset of the next page, if there is one"))),
    (status = 400, description = "Invalid request, or too many threads to look at", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn search(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(search): Json<ThreadSearch>,
) -> Result<Response, Problem> {
    let (state, principal) = (&state, &principal);
    let (limit, offset) = page_of(search.limit, search.offset, 10)?;
    let found = search.found(state, principal, offset.saturating_add(limit).saturating_add(1)).await?;
    let next = (found.len() > offset.saturating_add(limit)).then(|| offset + limit);
    let page: Vec<Thread> = found.into_iter().skip(offset).take(limit).collect();
    let make = || async {
        let (mut views, mut bytes) = (Vec::with_capacity(page.len()), 0);
        for thread in &page {
            if !search.wants_values() || bytes >= MAX_PAGE_BYTES {
                views.push(ThreadView::new(thread));
                continue;
            }
            let view = match with_values(state, principal, thread).await {
                // A conversation that is too large does not hide the others.
                Err(problem) if problem.kind == ProblemType::ConversationTooLarge => ThreadView::new(thread),
                // The thread was deleted meanwhile.
                Err(problem) if problem.kind == ProblemType::ThreadNotFound => continue,
                view => view?,
            };
            bytes += view.values.as_ref().map_or(0, |values| values.get().len());
            views.push(view);
        }
        Ok((serde_json::to_vec(&views).unwrap_or_default(), ()))
    };
    let (body, ()) = state.http.responses.chunk(principal, make).await?;
    Ok(paged(([(header::CONTENT_TYPE, "application/json")], body).into_response(), next))
}

/// Counts the threads that fit.
#[utoipa::path(post, path = "/langgraph/threads/count", tag = "langgraph", request_body = ThreadSearch, responses(
    (status = 200, description = "The number", content((usize = "application/json"))),
    (status = 400, description = "Invalid request, or too many threads to look at", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn count(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(search): Json<ThreadSearch>,
) -> Result<Answer<usize>, Problem> {
    Ok(Answer(search.found(&state, &principal, usize::MAX).await?.len()))
}
