//! Topic of a thread: one run from its first event (run mode), or the log after a cursor until no run is active
//! (connect mode).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use threadline_core::{
    Batch, Epoch, LogSlice, ReadFrom, RunId, Seq, limits::CURSOR_PAGE, projection::beginning::missing_start,
};
use threadline_engine::{
    EventsPage, PageRequest, ReadError, StopError, StoreError,
    metrics::GaugeGuard,
    subscription::{Delivery, EndReason, FollowMethod, Subscription, TopicState},
};
use threadline_http::{
    auth::ThreadPass,
    routes::{Access, ClientFrames},
    ws::protocol::HandOver,
};
use tokio::sync::watch;

use super::{Refusal, refused};
use crate::api::{
    ApiState,
    copilotkit::{
        intelligence::event_id,
        phoenix::channel::{ChannelHandler, ChannelReply, Disconnect, Joined, Outgoing, Push, SocketKind},
    },
};

/// Socket that follows one thread.
pub struct ThreadPlane {
    state: ApiState,
    pass: ThreadPass,
    sent: Arc<Sent>,
}

/// Record of the events passed to the socket.
#[derive(Default)]
struct Sent {
    anything: AtomicBool,
    /// Position of the last event that the client is assumed to have. Cleared when the client leaves the topic, because
    /// a client ignores events for a join that it has left.
    place: Mutex<Option<(Epoch, Seq)>>,
}

impl Sent {
    fn place(&self) -> MutexGuard<'_, Option<(Epoch, Seq)>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
#[serde(tag = "stream_mode", rename_all = "lowercase")]
enum Mode {
    Run { run_id: String },
    Connect { last_seen_event_id: Option<String> },
}

impl ThreadPlane {
    pub fn new(state: ApiState, pass: ThreadPass) -> Self {
        let sent = Sent { anything: AtomicBool::new(false), place: Mutex::new(pass.resume) };
        Self { state, pass, sent: Arc::new(sent) }
    }

    async fn follow(&self, params: &RawValue) -> Result<Joined, Refusal> {
        let mode = serde_json::from_str(params.get()).map_err(|error| Refusal::Malformed(error.to_string()))?;
        let ThreadPass { principal, thread, .. } = &self.pass;
        let events = &self.state.service.events;
        // A client that joins again sends the parameters of its first join; it already has the events sent since.
        let delivered = *self.sent.place();
        let inbox = Box::new(Stops { state: self.state.clone(), pass: self.pass.clone(), sent: self.sent.clone() });
        let pushes = match mode {
            Mode::Run { run_id } => {
                let run = RunId::new(run_id).map_err(|error| Refusal::Malformed(error.to_string()))?;
                let (epoch, after) = delivered.unzip();
                let subscription = events
                    .subscribe(principal, thread, after.unwrap_or(0), epoch, Some(&run), FollowMethod::Copilotkit)
                    .await?;
                stream::unfold(Following::run(self, subscription, run), Following::next).boxed()
            }
            Mode::Connect { last_seen_event_id } => {
                let (epoch, after, named) = match (delivered, last_seen_event_id) {
                    (Some((epoch, seq)), _) => (Some(epoch), seq, self.name(seq).await?),
                    (None, Some(id)) => match self.find(&id).await? {
                        Some((epoch, seq)) => (Some(epoch), seq, Some(id)),
                        None => (None, 0, None),
                    },
                    (None, None) => (None, 0, None),
                };
                let (subscription, named) =
                    match events.subscribe(principal, thread, after, epoch, None, FollowMethod::Copilotkit).await {
                        // The cursor belongs to a log that was replaced; the client receives the current log.
                        Err(ReadError::LogReplaced(_) | ReadError::CursorAhead { .. }) => {
                            (events.subscribe(principal, thread, 0, None, None, FollowMethod::Copilotkit).await?, None)
                        }
                        subscription => (subscription?, named),
                    };
                stream::unfold(Following::connect(self, subscription, named), Following::next).boxed()
            }
        };
        Ok(Joined { response: json!({}), pushes, inbox })
    }

    /// Reads the id of the event at this position.
    async fn name(&self, seq: Seq) -> Result<Option<String>, ReadError> {
        let ThreadPass { principal, thread, .. } = &self.pass;
        let from = ReadFrom::Before(seq.saturating_add(1));
        let request = PageRequest { from, limit: 1, epoch: None, run: None, wait: None };
        let page = self.state.service.events.page(principal, thread, request).await?;
        Ok(page.slice.events().last().map(|(seq, event, _)| event_id::of(text(event), page.epoch, seq)))
    }

    /// Searches the event with this id, newest events first, since it is most often among them: its seq, and the epoch
    /// under which it was read.
    async fn find(&self, id: &str) -> Result<Option<(Epoch, Seq)>, ReadError> {
        let ThreadPass { principal, thread, .. } = &self.pass;
        let mut pages = self.state.service.events.backwards(principal, thread, CURSOR_PAGE);
        let Some(newest) = pages.next().await? else { return Ok(None) };
        let (epoch, tail) = (newest.epoch, newest.tail);
        if let Some(seq) = event_id::place(id, epoch) {
            return Ok(Some((epoch, seq)).filter(|_| seq <= tail));
        }
        let within = |page: &EventsPage| {
            let found = page.slice.events().filter(|(_, event, _)| event_id::is(text(event), id)).last();
            found.map(|(seq, _, _)| seq)
        };
        if let Some(seq) = within(&newest) {
            return Ok(Some((epoch, seq)));
        }
        let scan = async {
            while let Some(page) = pages.next().await? {
                if let Some(seq) = within(&page) {
                    return Ok::<_, ReadError>(Some(seq));
                }
            }
            Ok(None)
        };
        let found = self.state.copilotkit.cursors.find(epoch, tail, id, scan).await?;
        Ok(found.map(|seq| (epoch, seq)))
    }
}

fn text(event: &[u8]) -> &str {
    // All events in the log are valid UTF-8.
    std::str::from_utf8(event).unwrap_or_default()
}

#[async_trait]
impl SocketKind for ThreadPlane {
    async fn join(&mut self, topic: &str, params: &RawValue) -> Result<Joined, Value> {
        if topic.strip_prefix("thread:") != Some(self.pass.thread.as_str()) {
            return Err(refused("unauthorized"));
        }
        self.follow(params).await.map_err(Refusal::for_reader)
    }

    async fn closed(&mut self, hand_over: HandOver) {
        let place = *self.sent.place();
        // Frames that were written may be lost, unless the client has answered the close after them. In that case only
        // the client knows its position, and it requests another token.
        if self.sent.anything.load(Ordering::Acquire) && !(hand_over == HandOver::Complete && place.is_some()) {
            return;
        }
        self.pass.resume = place;
        if let Err(error) = self.state.http.auth.return_thread_token(&self.pass).await {
            tracing::debug!(%error, "cannot return a token for a thread; its client requests another");
        }
    }
}

/// Push of a page that requests a run to stop.
const STOP_RUN: &str = "stop_run";

/// Pushes of a page, each with the permission that it requires.
pub const CLIENT_PUSHES: ClientFrames = ClientFrames(&[(STOP_RUN, Access::CHAT)]);

/// Inbox that requests runs to stop.
struct Stops {
    state: ApiState,
    pass: ThreadPass,
    sent: Arc<Sent>,
}

#[derive(Deserialize)]
struct StopRun {
    run_id: String,
}

#[async_trait]
impl ChannelHandler for Stops {
    async fn push(&mut self, event: &str, payload: &RawValue) -> ChannelReply {
        if event != STOP_RUN {
            return Err(refused("unknown_event")).into();
        }
        if CLIENT_PUSHES.check(event, &self.pass.principal).is_err() {
            return Err(refused("forbidden")).into();
        }
        let run = serde_json::from_str::<StopRun>(payload.get()).ok().and_then(|stop| RunId::new(stop.run_id).ok());
        let Some(run) = run else { return Err(refused("run_not_active")).into() };
        let stopped = self.state.service.runs.stop(&self.pass.principal, &self.pass.thread, &run).await;
        let answer = match stopped {
            Ok(run) if run.status.is_active() => Ok(json!({})),
            Ok(_) | Err(StopError::RunNotFound | StopError::ThreadNotFound) => Err(refused("run_not_active")),
            Err(error) => Err(Refusal::from(error).for_reader()),
        };
        answer.into()
    }

    async fn left(&mut self) {
        *self.sent.place() = None;
    }
}

/// Progress of one join through the log.
struct Following {
    state: ApiState,
    pass: ThreadPass,
    subscription: Subscription,
    sent: Arc<Sent>,
    mode: TopicMode,
    /// Run of the newest event delivered.
    run: Option<RunId>,
    _present: GaugeGuard,
}

enum TopicMode {
    /// Events of one run only.
    Run(RunId),
    Connect {
        /// Seq at which history ends; `None` once `replay_complete` is pushed.
        history: Option<Seq>,
        /// Id of the last event that the client has.
        newest: Option<String>,
        state: watch::Receiver<TopicState>,
    },
    Over,
}

impl Following {
    fn run(plane: &ThreadPlane, subscription: Subscription, run: RunId) -> Self {
        Self::new(plane, subscription, TopicMode::Run(run))
    }

    fn connect(plane: &ThreadPlane, subscription: Subscription, newest: Option<String>) -> Self {
        // The tail is read when or after the subscription begins: later events are live.
        let history = Some(subscription.tail());
        let state = subscription.watch();
        Self::new(plane, subscription, TopicMode::Connect { history, newest, state })
    }

    fn new(plane: &ThreadPlane, subscription: Subscription, mode: TopicMode) -> Self {
        let _present = GaugeGuard::new(&plane.state.service.metrics().following.socket);
        Self {
            state: plane.state.clone(),
            pass: plane.pass.clone(),
            subscription,
            sent: plane.sent.clone(),
            mode,
            run: None,
            _present,
        }
    }

    /// Returns the next item to be written; `None` after the last one.
    async fn next(mut self) -> Option<(Outgoing, Self)> {
        loop {
            let out = match self.mode {
                TopicMode::Over => return None,
                TopicMode::Run(_) => self.next_of_run().await,
                TopicMode::Connect { .. } => self.next_of_thread().await,
            };
            let out = out.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read a thread; its reader must reconnect");
                self.mode = TopicMode::Over;
                Some(Outgoing::Hangup(Disconnect::Failed))
            });
            if let Some(out) = out {
                return Some((out, self));
            }
        }
    }

    async fn next_of_run(&mut self) -> Result<Option<Outgoing>, StoreError> {
        match self.subscription.next().await? {
            Some(Delivery::Events(slice)) => {
                let mut pushes = Vec::new();
                self.deliver(&slice, &mut pushes).await;
                Ok(Some(Outgoing::Push(pushes)))
            }
            Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_)) => {
                Ok(None)
            }
            Some(Delivery::Ended(reason)) => {
                let mode = std::mem::replace(&mut self.mode, TopicMode::Over);
                let TopicMode::Run(run) = mode else { return Ok(None) };
                Ok(self.last_words(reason, &run).await)
            }
            None => {
                self.mode = TopicMode::Over;
                Ok(None)
            }
        }
    }

    /// Makes the terminal event for which the client waits, if the run ended without one in the log. Such an event is
    /// not stored.
    async fn last_words(&self, reason: EndReason, run: &RunId) -> Option<Outgoing> {
        let (code, message) = match reason {
            EndReason::ThreadDeleted => ("thread-deleted", "The thread was deleted."),
            EndReason::LogReplaced(_) => ("history-lost", "The store has lost events of the run."),
            EndReason::LogDamaged { .. } => ("log-damaged", "Events of the run are damaged in the store."),
            EndReason::RunEnded => {
                let found = self.state.service.runs.get(&self.pass.principal, &self.pass.thread, run).await.ok()?;
                if found.producer_seq > 0 {
                    return None;
                }
                ("run-abandoned", "The run ended before its first event.")
            }
        };
        let error = json!({ "type": "RUN_ERROR", "code": code, "message": message });
        Some(Outgoing::Push(vec![Push { event: "ag_ui_event", payload: error.to_string() }]))
    }

    async fn next_of_thread(&mut self) -> Result<Option<Outgoing>, StoreError> {
        let TopicMode::Connect { history, newest, state } = &mut self.mode else { return Ok(None) };
        let mut pushes = Vec::new();
        if history.is_some_and(|history| self.subscription.cursor() >= history) {
            *history = None;
            pushes.push(control("replay_complete", newest));
        }
        let seen = *state.borrow_and_update();
        let idle = history.is_none() && !seen.active && self.subscription.cursor() >= seen.tail;
        if idle {
            pushes.push(control("stream_idle", newest));
        }
        if !pushes.is_empty() {
            if idle {
                self.mode = TopicMode::Over;
            }
            return Ok(Some(Outgoing::Push(pushes)));
        }
        let delivery = tokio::select! {
            delivery = self.subscription.next() => delivery?,
            // A run may end without a further event.
            Ok(()) = state.changed() => return Ok(None),
        };
        match delivery {
            Some(Delivery::Events(slice)) => {
                let mut history = *history;
                if let Some(end) = history.filter(|end| slice.last_seq().is_some_and(|last| last > *end)) {
                    // The page extends beyond the history as of the join.
                    self.deliver(&slice.between(0, end + 1), &mut pushes).await;
                    if let TopicMode::Connect { newest, .. } = &self.mode {
                        pushes.push(control("replay_complete", newest));
                    }
                    self.deliver(&slice.between(end, Seq::MAX), &mut pushes).await;
                    history = None;
                } else {
                    self.deliver(&slice, &mut pushes).await;
                }
                if let TopicMode::Connect { history: kept, .. } = &mut self.mode {
                    *kept = history;
                }
                Ok(Some(Outgoing::Push(pushes)))
            }
            Some(Delivery::CaughtUp(_) | Delivery::FellBehind(_) | Delivery::Rebased { .. } | Delivery::Queue(_)) => {
                Ok(None)
            }
            Some(Delivery::Ended(_)) | None => {
                if history.take().is_some() {
                    pushes.push(control("replay_complete", newest));
                }
                pushes.push(control("stream_idle", newest));
                self.mode = TopicMode::Over;
                Ok(Some(Outgoing::Push(pushes)))
            }
        }
    }

    async fn deliver(&mut self, slice: &LogSlice, pushes: &mut Vec<Push>) {
        for batch in &slice.0 {
            self.state.copilotkit.acks.given(&self.pass.principal, &self.pass.thread, &batch.run).await;
        }
        let epoch = self.subscription.epoch();
        let event = "ag_ui_event";
        for batch in &slice.0 {
            if let Some(payload) = self.missing_start(batch).await {
                pushes.push(Push { event, payload });
            }
            let identified = |(seq, bytes)| Push { event, payload: event_id::identified(text(bytes), epoch, seq) };
            pushes.extend(batch.events().map(identified));
        }
        let Some((seq, last, _)) = slice.events().last() else { return };
        self.sent.anything.store(true, Ordering::Release);
        *self.sent.place() = Some((epoch, seq));
        if let TopicMode::Connect { newest, .. } = &mut self.mode {
            *newest = Some(event_id::of(text(last), epoch, seq));
        }
    }
}

impl Following {
    /// Makes a RUN_STARTED for a run that begins without one.
    async fn missing_start(&mut self, batch: &Batch) -> Option<String> {
        if self.run.as_ref() == Some(&batch.run) {
            return None;
        }
        self.run = Some(batch.run.clone());
        let (seq, first) = batch.events().next()?;
        let ThreadPass { principal, thread, .. } = &self.pass;
        let start = missing_start(thread, &batch.run, first)?;
        // A reader that resumes in the middle of a run has already received its start.
        let run = self.state.service.runs.get(principal, thread, &batch.run).await.ok()?;
        if run.first_seq == seq { Some(start) } else { None }
    }
}

fn control(event: &'static str, newest: &Option<String>) -> Push {
    Push { event, payload: json!({ "latestEventId": newest }).to_string() }
}
