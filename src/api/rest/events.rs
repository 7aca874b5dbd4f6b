//! Reading a thread's log: pages, NDJSON, SSE, long-poll.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use threadline_core::{
    Principal, ReadFrom, RunId, ThreadId,
    limits::{DEFAULT_EVENT_PAGE, MAX_PAGE_BYTES},
};
use threadline_engine::{
    PageRequest, ServiceError, StoreError,
    limits::StreamPermit,
    subscription::{Delivery, EndReason, FollowMethod, Subscription},
};
use threadline_http::{
    auth::watch::CredentialWatch,
    cursor::{self, EventId, Start},
    envelope::{self, BatchHead},
    extract::{Caller, InThread, Params},
    negotiation::{StreamFormat, end_reason, ended, refusal, wait_time},
    observe,
    problem::{Problem, ProblemDocument},
    sse::{self, EventSource, Farewell},
    view::queue_frame,
};
use utoipa::IntoParams;

use crate::api::{ApiState, run_agent::AguiClient};

/// Part of the log that a request reads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadParams {
    /// Only events with a greater seq. Above 0 only with `epoch`. Default 0.
    after: Option<u64>,
    /// Instead of `after`: the newest events with seq below it, oldest first. Only with `epoch`.
    before: Option<u64>,
    /// Most events of a JSON page, 1 to 10000. Default 1000.
    limit: Option<usize>,
    /// The epoch of `after` or `before`. If the log has another epoch, the response is 410.
    epoch: Option<String>,
    /// Instead of `after` or `before` and `epoch`: `nextCursor` of a page, or of `hello` or `caughtUp` of a stream.
    /// `Last-Event-ID` takes precedence over all of them.
    cursor: Option<String>,
    /// Only this run; SSE and NDJSON end with it.
    #[param(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// Long-poll: wait up to this many seconds (at most 60) for the first event.
    wait: Option<f64>,
    /// `tail`: SSE ends when it has caught up.
    #[param(inline)]
    until: Option<Until>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Until {
    Tail,
}

impl ReadParams {
    pub(crate) fn start(&self) -> Start<'_> {
        Start { after: self.after, before: self.before, epoch: self.epoch.as_deref(), cursor: self.cursor.as_deref() }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl ReadParams {
    pub(crate) fn wait(&self) -> Option<f64> {
        self.wait
    }
}

/// Reads events: a page, all of them as NDJSON, or a live stream as SSE.
///
/// Every format has the same events in the same order with the same seqs. The stream passes from replay to live
/// without a gap.
#[utoipa::path(get, path = "/v1/threads/{threadId}/events", tag = "events",
    params(("threadId" = String, Path), ReadParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event seen: `<epoch>:<seq>`")),
    responses(
        (status = 200, description = "Events", content(
            (serde_json::Value = "application/json", example = json!({
                "threadId": "demo", "epoch": "0123456789abcdef", "tail": 2,
                "nextCursor": "c1.AQEjRWeJq83vAAAAAAAAAAH1NJvM", "hasMore": true,
                "events": [{ "seq": 1, "runId": "r1", "at": "2026-11-21T10:11:15.123Z", "event": { "type": "RUN_STARTED" } }]
            })),
            (String = "application/x-ndjson"),
            (String = "text/event-stream"))),
        (status = 400, description = "Invalid request", body = ProblemDocument),
        (status = 401, description = "Authentication required", body = ProblemDocument),
        (status = 404, description = "Thread or run not found", body = ProblemDocument),
        (status = 406, description = "Not acceptable", body = ProblemDocument),
        (status = 410, description = "Log replaced: the cursor belongs to another log", body = ProblemDocument),
        (status = 416, description = "Cursor beyond end of log", body = ProblemDocument),
        (status = 500, description = "Damaged log: the next events cannot be read", body = ProblemDocument),
        (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Params(params): Params<ReadParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = StreamFormat::accepted(&headers)?;
    let (from, epoch) = match EventId::last_seen(&headers)? {
        Some(EventId { epoch, seq }) => (ReadFrom::After(seq), Some(epoch)),
        None => params.start().in_log()?,
    };
    if form == StreamFormat::Json {
        let wait = wait_time(params.wait)?;
        let limit = params.limit.unwrap_or(DEFAULT_EVENT_PAGE);
        let request = PageRequest { from, limit, epoch, run: params.run_id, wait };
        return state.http.waiting(&principal, wait, page(&state, &principal, &thread, request)).await;
    }
    let ReadFrom::After(after) = from else {
        return Err(Problem::invalid("before is available for JSON pages only"));
    };
    let via = if form == StreamFormat::Ndjson { FollowMethod::Ndjson } else { FollowMethod::Sse };
    let events = &state.service.events;
    let subscription = events.subscribe(&principal, &thread, after, epoch, params.run_id.as_ref(), via).await?;
    if form == StreamFormat::Ndjson {
        return lines(subscription, state.http.quota.open(&principal)?, state.http.auth.watch(&principal)).await;
    }
    let hello = hello(&thread, &subscription);
    let counted = observe::DeliveryMetrics::new(&state.http);
    let followed = EventStream { subscription, counted, until: params.until, requester: None, done: false };
    Ok(sse::response(followed, Some(hello), state.http.quota.open(&principal)?, &state.http, &principal))
}

async fn page(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    request: PageRequest,
) -> Result<Response, Problem> {
    // A wait holds no memory: it ends with the first event, and the page is read afterwards.
    if request.wait.is_some() {
        let first = PageRequest { limit: 1, ..request.clone() };
        state.service.events.page(principal, thread, first).await?;
    }
    let request = PageRequest { wait: None, ..request };
    let make = || async {
        let made = state.service.events.page(principal, thread, request.clone()).await;
        // The page itself must not be held while no memory is available.
        Ok(made.map(|page| envelope::page(thread, &page, request.from))?)
    };
    state.http.responses.page(principal, MAX_PAGE_BYTES, make).await
}

/// Events of a run, for the client that requested it.
pub fn stream(
    thread: &ThreadId,
    subscription: Subscription,
    requester: AguiClient,
    place: StreamPermit,
    state: &ApiState,
    principal: &Principal,
) -> Response {
    let hello = hello(thread, &subscription);
    let counted = observe::DeliveryMetrics::new(&state.http);
    let followed = EventStream { subscription, counted, until: None, requester: Some(requester), done: false };
    sse::response(followed, Some(hello), place, &state.http, principal)
}

fn hello(thread: &ThreadId, subscription: &Subscription) -> String {
    let hello = json!({
        "threadId": thread.as_str(),
        "epoch": subscription.epoch().to_string(),
        "tail": subscription.tail(),
        "after": subscription.cursor(),
        "nextCursor": cursor::after_in_log(subscription.epoch(), subscription.cursor()),
    });
    sse::named("hello", &hello)
}

/// All events up to the current tail, one per line. The response holds a stream permit, and ends once its credential is
/// no longer valid. The first events are read before the response begins, so that it can still be a problem.
async fn lines(
    mut subscription: Subscription,
    place: StreamPermit,
    credential: CredentialWatch,
) -> Result<Response, Problem> {
    let (epoch, tail) = (subscription.epoch(), subscription.tail());
    let first = match next_lines(&mut subscription, tail).await.map_err(ServiceError::Store)? {
        Some(Ok(lines)) => Some((Some(lines), subscription, place, credential)),
        Some(Err(reason)) => match refusal(reason) {
            Some(problem) => return Err(problem),
            None => None,
        },
        None => None,
    };
    let body = stream::unfold(first, move |state| async move {
        let (first, mut subscription, place, mut credential) = state?;
        if let Some(lines) = first {
            return Some((Ok(lines), Some((None, subscription, place, credential))));
        }
        let next = tokio::select! {
            biased;
            () = credential.expired() => {
                return Some((Err(StoreError::Unavailable("the key or token is no longer valid".into())), None));
            }
            next = next_lines(&mut subscription, tail) => next,
        };
        match next {
            Ok(Some(Ok(lines))) => Some((Ok(lines), Some((None, subscription, place, credential)))),
            Ok(None) => None,
            // A body that ends without its last chunk tells the client that data is missing.
            Ok(Some(Err(reason))) => Some((Err(StoreError::Unavailable(end_reason(reason).into())), None)),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(envelope::TAIL_HEADER, HeaderValue::from(tail));
    if let Ok(epoch) = HeaderValue::from_str(&epoch.to_string()) {
        headers.insert(envelope::EPOCH_HEADER, epoch);
    }
    Ok(response)
}

/// The next events up to `tail` as lines, or the reason why they do not follow; `None` at the end.
async fn next_lines(
    subscription: &mut Subscription,
    tail: u64,
) -> Result<Option<Result<Bytes, EndReason>>, StoreError> {
    while subscription.cursor() < tail {
        match subscription.next().await? {
            Some(Delivery::Events(slice)) => return Ok(Some(Ok(envelope::ndjson(&slice.between(0, tail + 1))))),
            // The rest continues what was sent: the header names the previous epoch, under which it is as valid.
            Some(Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_)) => {}
            Some(Delivery::CaughtUp(_) | Delivery::Ended(EndReason::RunEnded)) | None => return Ok(None),
            Some(Delivery::Ended(reason)) => return Ok(Some(Err(reason))),
        }
    }
    Ok(None)
}

struct EventStream {
    subscription: Subscription,
    counted: observe::DeliveryMetrics,
    until: Option<Until>,
    requester: Option<AguiClient>,
    done: bool,
}

impl EventSource for EventStream {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.done {
            return Ok(None);
        }
        let Some(delivery) = self.subscription.next().await? else { return Ok(None) };
        self.counted.delivers(&delivery);
        let epoch = self.subscription.epoch();
        Ok(Some(match delivery {
            Delivery::Events(slice) => {
                let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 150);
                for batch in &slice.0 {
                    let head = BatchHead::new(batch);
                    for (seq, event) in batch.events() {
                        out.extend_from_slice(format!("id: {epoch}:{seq}\ndata: ").as_bytes());
                        head.write(&mut out, seq, event);
                        out.extend_from_slice(b"\n\n");
                    }
                }
                out.into()
            }
            Delivery::CaughtUp(seq) => {
                self.done = self.until == Some(Until::Tail);
                let next = cursor::after_in_log(epoch, seq);
                sse::named("caught_up", &json!({ "seq": seq, "nextCursor": next })).into()
            }
            Delivery::Queue(queue) => sse::named("queue", &queue_frame(epoch, queue)).into(),
            Delivery::FellBehind(seq) => sse::named("fell_behind", &json!({ "seq": seq })).into(),
            Delivery::Rebased { from, epoch } => {
                let rebased = json!({
                    "from": from.to_string(), "epoch": epoch.to_string(), "after": self.subscription.cursor(),
                });
                sse::named("rebased", &rebased).into()
            }
            Delivery::Ended(reason) => {
                self.done = true;
                self.leave();
                let ended = ended(reason, self.subscription.cursor());
                sse::named("ended", &ended).into()
            }
        }))
    }

    fn tail(&self) -> u64 {
        self.subscription.tail()
    }

    fn failed(&mut self, error: StoreError) -> Option<Bytes> {
        self.leave();
        Some(sse::failure(error))
    }

    fn goodbye(&mut self, why: Farewell) -> Option<Bytes> {
        self.leave();
        Some(sse::farewell(why))
    }
}

impl EventStream {
    /// Marks the end of the stream as the server's, so that the requester does not stop the run.
    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }
}
