//! Events of a thread as they are sent to a client: its newest run from the beginning, and then each further run.

use std::collections::VecDeque;

use threadline_core::{
    Epoch, LogSlice, Principal, Seq, Thread, ThreadId, Timestamp,
    limits::{PAGE_BYTES, TRANSLATED_BYTES},
    projection::langgraph::{
        Channels, Derived, Frame, Frames, Method, Point, ThreadStream, checkpoint_id, seq_of_number, values_of,
    },
};
use threadline_engine::{
    Projected, ProjectionError, StoreError,
    subscription::{Delivery, FollowMethod, Subscription},
};
use threadline_http::{observe, problem::Problem};
use tokio::task::yield_now;

use crate::api::ApiState;

/// Event that derives from a commit, in the order of the stream.
struct Item {
    run: String,
    at: Timestamp,
    derived: Derived,
}

impl Item {
    /// Number of the event; of a checkpoint that of its values, which is the larger one.
    fn number(&self) -> u64 {
        match &self.derived {
            Derived::Event { number, .. } => *number,
            Derived::Point(point) => point.number + 1,
        }
    }
}

/// Stream to one client. A read may be cancelled at each wait, so all that was taken and not sent is here.
pub struct Pump {
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
    out: Vec<Frame>,
    counted: observe::DeliveryMetrics,
}

impl Pump {
    /// Begins with the run that was the newest one at `at`; without it, with the newest run.
    pub async fn open(
        state: &ApiState,
        principal: &Principal,
        thread: &Thread,
        channels: Channels,
        at: Option<Seq>,
    ) -> Result<Self, Problem> {
        let page = state.service.runs.list(principal, &thread.id, None, 1, at).await?;
        let after = page.items.first().map_or(0, |run| run.first_seq - 1);
        let (events, via) = (&state.service.events, FollowMethod::LangGraph);
        let subscription = events.subscribe(principal, &thread.id, after, Some(thread.epoch), None, via).await?;
        Ok(Self {
            counted: observe::DeliveryMetrics::new(&state.http),
            state: state.clone(),
            principal: principal.clone(),
            thread: thread.id.clone(),
            stream: ThreadStream::new(channels, after),
            since: None,
            subscription,
            pending: None,
            taken: Vec::new(),
            ready: VecDeque::new(),
            out: Vec::new(),
        })
    }

    /// Leaves out the events up to this number.
    pub fn leave_out(&mut self, since: u64) {
        self.since = Some(since);
    }

    /// Changes the channels of the events that are not translated yet.
    pub fn set_channels(&mut self, channels: Channels) {
        self.stream.set_channels(channels);
    }

    /// Current end of the log.
    pub fn tail(&self) -> Seq {
        self.subscription.tail()
    }

    /// Seq of the first event of the log of which not all is sent.
    pub fn unsent(&self) -> Seq {
        let item = self.ready.front().or(self.taken.first()).map(|item| seq_of_number(item.number()));
        let pending = || self.pending.as_ref().and_then(LogSlice::first_seq);
        item.or_else(pending).unwrap_or(self.subscription.cursor() + 1)
    }

    /// The next frames. `None` once the log cannot be followed further. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<Frame>>, StoreError> {
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
                    return Ok(Some(out));
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
            if self.since.is_some_and(|since| item.number() <= since) {
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

    /// Makes frames until they fill a page.
    async fn write(&mut self) -> Result<Vec<Frame>, StoreError> {
        let mut bytes = self.out.iter().map(|frame| frame.json.len()).sum::<usize>();
        while bytes < PAGE_BYTES
            && let Some(Item { run, at, derived }) = self.ready.front()
        {
            let (frames, before) = (Frames { epoch: self.subscription.epoch(), run, at: *at }, self.out.len());
            match derived {
                Derived::Event { number, method, data } => self.out.push(frames.frame(*number, *method, data)),
                Derived::Point(point) => {
                    let made = self.point(&frames, point).await?;
                    self.out.extend(made);
                }
            }
            bytes += self.out[before..].iter().map(|frame| frame.json.len()).sum::<usize>();
            self.ready.pop_front();
        }
        Ok(std::mem::take(&mut self.out))
    }

    async fn point(&self, frames: &Frames<'_>, point: &Point) -> Result<Vec<Frame>, StoreError> {
        let mut made = Vec::new();
        let wants = |number: u64| self.since.is_none_or(|since| number > since);
        let channels = self.stream.channels();
        if channels.has("checkpoints") && wants(point.number) {
            let parent = match point.parent {
                0 => String::new(),
                parent => format!(",\"parent_id\":\"{}\"", checkpoint_id(parent)),
            };
            let (id, step) = (checkpoint_id(point.seq), point.seq);
            let data = format!("{{\"id\":\"{id}\"{parent},\"step\":{step},\"source\":\"loop\"}}");
            made.push(frames.frame(point.number, Method::Checkpoints, &data));
        }
        if channels.has("values")
            && let Some(values) = self.values(frames.epoch, point.seq).await?
        {
            made.push(frames.frame(point.number + 1, Method::Values, &values));
        }
        Ok(made)
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
