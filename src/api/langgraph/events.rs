//! The event stream of a thread: its newest run from the beginning, and then each further run.

use std::collections::VecDeque;

use axum::{body::Bytes, extract::State, response::Response};
use serde::{Deserialize, Serialize};
use threadline_core::{
    Epoch, LogSlice, Principal, Seq, Thread, ThreadId, Timestamp,
    limits::{PAGE_BYTES, TRANSLATED_BYTES},
    projection::langgraph::{
        Channels, Derived, Frames, Method, Point, ThreadStream, checkpoint_id, seq_of_number, values_of,
    },
};
use threadline_engine::{
    Projected, ProjectionError, ReadError, StoreError,
    subscription::{Delivery, FollowMethod, Subscription},
};
use threadline_http::{
    extract::{Caller, InThread, Json},
    observe,
    problem::{Problem, ProblemDocument},
    sse::{self, EventSource, Farewell},
};
use tokio::task::yield_now;
use utoipa::ToSchema;

use crate::api::ApiState;

/// Events that a reader wants.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LangGraphFollow)]
pub struct FollowBody {
    /// `values`, `updates`, `messages`, `tools`, `lifecycle`, `input`, `checkpoints`, `tasks`, `custom` or `custom:NAME`.
    channels: Vec<String>,
    /// Only events below these namespaces. All events are in the root namespace, `[]`.
    namespaces: Option<Vec<Vec<String>>>,
    /// Ignored: there is no other namespace than the root.
    depth: Option<u64>,
    /// Only events with a larger `seq`. Without it, the newest run is replayed from its beginning.
    since: Option<u64>,
}

/// Streams the events of a thread. The stream stays open after the end of a run, and continues with the next one.
#[utoipa::path(post, path = "/langgraph/threads/{threadId}/stream/events", tag = "langgraph",
    params(("threadId" = String, Path)), request_body = FollowBody, responses(
    (status = 200, description = "The events", content((String = "text/event-stream"))),
    (status = 400, description = "Unknown channel", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 416, description = "`since` is beyond the end of the log", body = ProblemDocument)))]
pub async fn follow(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Json(body): Json<FollowBody>,
) -> Result<Response, Problem> {
    let mut channels = Channels::of(&body.channels).map_err(|unknown| {
        Problem::invalid(format!("channels has {unknown:?}, which is none of {}", Channels::names()))
    })?;
    if body.namespaces.is_some_and(|namespaces| namespaces.iter().all(|namespace| !namespace.is_empty())) {
        channels = Channels::default();
    }
    let place = state.http.quota.open(&principal)?;
    let thread = state.service.threads.get(&principal, &thread).await?;
    let after = begin(&state, &principal, &thread, body.since).await?;
    let (events, via) = (&state.service.events, FollowMethod::LangGraph);
    let subscription = events.subscribe(&principal, &thread.id, after, Some(thread.epoch), None, via).await?;
    let pump = Pump {
        counted: observe::DeliveryMetrics::new(&state.http),
        state: state.clone(),
        principal: principal.clone(),
        thread: thread.id,
        stream: ThreadStream::new(channels, after),
        since: body.since,
        subscription,
        pending: None,
        taken: Vec::new(),
        ready: VecDeque::new(),
        out: Vec::new(),
    };
    Ok(sse::response(pump, None, place, &state.http, &principal))
}

/// Cursor after which the stream begins: before the first event of a run.
async fn begin(state: &ApiState, principal: &Principal, thread: &Thread, since: Option<u64>) -> Result<Seq, Problem> {
    let at = since.map(seq_of_number);
    if at.is_some_and(|at| at > thread.tail) {
        return Err(ReadError::CursorAhead { epoch: Some(thread.epoch), tail: thread.tail }.into());
    }
    let page = state.service.runs.list(principal, &thread.id, None, 1, at).await?;
    Ok(page.items.first().map_or(0, |run| run.first_seq - 1))
}

/// Event that derives from a commit, in the order of the stream.
struct Item {
    run: String,
    at: Timestamp,
    derived: Derived,
}

/// Stream to one client. A heartbeat may cancel a read at each wait, so all that was taken and not sent is here.
struct Pump {
    state: ApiState,
    principal: Principal,
    thread: ThreadId,
    stream: ThreadStream,
    since: Option<u64>,
    subscription: Subscription,
    /// Events of the log that are not translated yet.
    pending: Option<LogSlice>,
    /// Events that derive from the part of the delivery that is translated.
    taken: Vec<Item>,
    /// Events that are not written yet.
    ready: VecDeque<Item>,
    /// Frames that are not sent yet.
    out: Vec<u8>,
    counted: observe::DeliveryMetrics,
}

impl Pump {
    /// Translates events of the log.
    fn translate(&mut self, slice: &LogSlice) {
        for (seq, event, batch) in slice.events() {
            let mut derived = Vec::new();
            self.stream.observe(batch.run.as_str(), seq, event, &mut derived);
            let items = derived.into_iter().map(|derived| Item { run: batch.run.to_string(), at: batch.at, derived });
            self.taken.extend(items);
        }
    }

    /// Hands over what was taken. Of several checkpoints in one delivery, clients need only the last one, and those that stay.
    fn make_ready(&mut self) {
        let mut is_replaced = false;
        for item in std::mem::take(&mut self.taken).into_iter().rev() {
            let number = match &item.derived {
                Derived::Event { number, .. } => *number,
                // The values have the next number.
                Derived::Point(point) => point.number + 1,
            };
            if self.since.is_some_and(|since| number <= since) {
                continue;
            }
            if let Derived::Point(point) = &item.derived {
                if is_replaced && !point.stays {
                    continue;
                }
                is_replaced = true;
            }
            self.ready.push_front(item);
        }
    }

    /// Writes events until they fill a page.
    async fn write(&mut self) -> Result<Vec<u8>, StoreError> {
        while self.out.len() < PAGE_BYTES
            && let Some(Item { run, at, derived }) = self.ready.front()
        {
            let frames = Frames { epoch: self.subscription.epoch(), run, at: *at };
            let mut piece = Vec::new();
            match derived {
                Derived::Event { number, method, data } => frames.write(*number, *method, data, &mut piece),
                Derived::Point(point) => self.write_point(&frames, point, &mut piece).await?,
            }
            self.out.append(&mut piece);
            self.ready.pop_front();
        }
        Ok(std::mem::take(&mut self.out))
    }

    async fn write_point(&self, frames: &Frames<'_>, point: &Point, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let wants = |number: u64| self.since.is_none_or(|since| number > since);
        let channels = self.stream.channels();
        if channels.has("checkpoints") && wants(point.number) {
            let parent = match point.parent {
                0 => String::new(),
                parent => format!(",\"parent_id\":\"{}\"", checkpoint_id(parent)),
            };
            let (id, step) = (checkpoint_id(point.seq), point.seq);
            let data = format!("{{\"id\":\"{id}\"{parent},\"step\":{step},\"source\":\"loop\"}}");
            frames.write(point.number, Method::Checkpoints, &data, out);
        }
        if channels.has("values")
            && let Some(values) = self.values(frames.epoch, point.seq).await?
        {
            frames.write(point.number + 1, Method::Values, &values, out);
        }
        Ok(())
    }

    /// Values after an event. `None` for a conversation that is too large to be read: its messages are streamed nevertheless.
    async fn values(&self, epoch: Epoch, at: Seq) -> Result<Option<String>, StoreError> {
        let make = |projected: &Projected| values_of(&projected.conversation);
        let projections = &self.state.service.projections;
        match projections.read(&self.principal, &self.thread, Some(at), Some(epoch), make).await {
            Ok(values) => Ok(Some(values)),
            Err(ProjectionError::ConversationTooLarge) => Ok(None),
            Err(ProjectionError::Store(error)) => Err(error),
            // The client connects again, and the response says why.
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }
}

impl EventSource for Pump {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        loop {
            if let Some(slice) = self.pending.take() {
                let (part, rest) = slice.cut(TRANSLATED_BYTES);
                self.pending = rest;
                self.translate(&part);
                if self.pending.is_some() {
                    yield_now().await;
                    continue;
                }
                self.make_ready();
            }
            if !self.ready.is_empty() || !self.out.is_empty() {
                let out = self.write().await?;
                if !out.is_empty() {
                    return Ok(Some(out.into()));
                }
            }
            let Some(delivery) = self.subscription.next().await? else { return Ok(None) };
            self.counted.delivers(&delivery);
            match delivery {
                Delivery::Events(slice) => self.pending = Some(slice),
                // The client connects again, and gets the reason as a response.
                Delivery::Ended(_) => return Ok(None),
                Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_) => {}
            }
        }
    }

    fn tail(&self) -> u64 {
        self.subscription.tail()
    }

    /// Sends no last frame: the protocol has none for failures, and clients connect again.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        None
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        None
    }
}
