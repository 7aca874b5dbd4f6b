//! Reading a user's feed: pages, SSE, long-poll.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use threadline_core::{FeedCursor, FeedEntry, UserId, limits::DEFAULT_PAGE};
use threadline_engine::{
    StoreError,
    metrics::GaugeGuard,
    subscription::{FeedDelivery, FeedSubscription},
};
use threadline_http::{
    cursor::{EventId, Start, after_in_feed},
    extract::{Caller, Params},
    negotiation::{StreamFormat, feed_ended, wait_time},
    problem::{Problem, ProblemDocument, ProblemType},
    sse::{self, EventSource},
    view::FeedEntryView,
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// Part of the feed that a request reads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FeedParams {
    /// Only changes after this position. Above 0 only with `epoch`. Default 0.
    after: Option<u64>,
    /// The epoch of `after`: `feedEpoch` of a list, or `epoch` of the feed. If the feed has another epoch, the response
    /// is 410.
    epoch: Option<String>,
    /// Instead of `after` and `epoch`: `nextCursor` of a page, or of `hello` or `caught_up` of a stream.
    /// `Last-Event-ID` takes precedence over all of them.
    cursor: Option<String>,
    /// Most entries of a page, 1 to 500. Default 50.
    limit: Option<usize>,
    /// Long-poll: wait up to this many seconds (at most 60) for the first change.
    wait: Option<f64>,
    /// User whose feed is read, if the API key is used without a user.
    #[param(value_type = Option<String>)]
    user_id: Option<UserId>,
}

/// A page of a feed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedView {
    /// The incarnation of the feed; cursors belong to it.
    epoch: String,
    entries: Vec<FeedEntryView>,
    /// Position of the last entry.
    cursor: u64,
    /// Cursor of the next page.
    next_cursor: String,
    has_more: bool,
}

/// Reads the changes of a user's threads: a page, or a live stream as SSE.
///
/// Only the newest change of each thread is kept, so a cursor never expires. After an erasure of the user the feed is
/// another one, and the response is 410.
#[utoipa::path(get, path = "/v1/feed", tag = "feed",
    params(FeedParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last entry seen: `<epoch>:<cursor>`")),
    responses(
        (status = 200, description = "Changes", content((FeedView = "application/json"), (String = "text/event-stream"))),
        (status = 400, description = "Invalid request", body = ProblemDocument),
        (status = 401, description = "Authentication required", body = ProblemDocument),
        (status = 406, description = "Not acceptable", body = ProblemDocument),
        (status = 410, description = "Log replaced: the cursor belongs to another feed", body = ProblemDocument),
        (status = 416, description = "Cursor beyond end of log", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<FeedParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = match EventId::last_seen(&headers)? {
        Some(EventId { epoch, seq }) => FeedCursor { epoch, position: seq },
        None => {
            let FeedParams { after, epoch, cursor, .. } = &params;
            Start { after: *after, before: None, epoch: epoch.as_deref(), cursor: cursor.as_deref() }.in_feed()?
        }
    };
    let feed = &state.service.feed;
    match StreamFormat::accepted(&headers)? {
        StreamFormat::Json => {
            let limit = params.limit.unwrap_or(DEFAULT_PAGE);
            let wait = wait_time(params.wait)?;
            let page = async { Ok(feed.page(&principal, params.user_id, after, limit, wait).await?) };
            let page = state.http.waiting(&principal, wait, page).await?;
            let entries = page.entries.iter().map(FeedEntryView::new).collect();
            let FeedCursor { epoch, position } = page.cursor;
            let view = FeedView {
                epoch: epoch.to_string(),
                entries,
                cursor: position,
                next_cursor: after_in_feed(page.cursor),
                has_more: page.has_more,
            };
            Ok(Json(view).into_response())
        }
        StreamFormat::Sse => {
            let subscription = feed.subscribe(&principal, params.user_id, after).await?;
            let hello = hello(subscription.cursor());
            let present = GaugeGuard::new(&state.service.metrics().following.sse_feed);
            let followed = FeedStream { subscription, ended: false, _present: present };
            Ok(sse::response(followed, Some(hello), state.http.quota.open(&principal)?, &state.http, &principal))
        }
        StreamFormat::Ndjson => Err(Problem::new(ProblemType::NotAcceptable, "the feed is not available as NDJSON")),
    }
}

fn hello(cursor: FeedCursor) -> String {
    let next = after_in_feed(cursor);
    sse::named("hello", &json!({ "epoch": cursor.epoch.to_string(), "cursor": cursor.position, "nextCursor": next }))
}

struct FeedStream {
    subscription: FeedSubscription,
    ended: bool,
    _present: GaugeGuard,
}

impl EventSource for FeedStream {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        Ok(Some(match self.subscription.next().await? {
            FeedDelivery::Ended(replaced) => {
                self.ended = true;
                sse::named("ended", &feed_ended(replaced)).into()
            }
            FeedDelivery::Rebased { from, epoch } => {
                let after = self.subscription.cursor().position;
                let rebased = json!({ "from": from.to_string(), "epoch": epoch.to_string(), "cursor": after });
                sse::named("rebased", &rebased).into()
            }
            FeedDelivery::Entries(entries) => {
                let epoch = self.subscription.cursor().epoch;
                let event = |entry: &FeedEntry| {
                    let (id, view) = (FeedCursor { epoch, position: entry.cursor }, FeedEntryView::new(entry));
                    format!("id: {id}\ndata: {}\n\n", serde_json::to_string(&view).unwrap_or_default())
                };
                entries.iter().map(event).collect::<String>().into()
            }
            FeedDelivery::CaughtUp(cursor) => {
                let next = after_in_feed(self.subscription.cursor());
                sse::named("caught_up", &json!({ "cursor": cursor, "nextCursor": next })).into()
            }
        }))
    }

    fn tail(&self) -> u64 {
        self.subscription.cursor().position
    }
}
