//! One socket: reads frames, and on each wake writes everything that is pending with one flush.
//!
//! No queue exists per subscriber: a delivery is taken from its subscription only when the previous one has been
//! written. A client that does not read falls behind, and after a timeout its socket is closed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, AbortHandle, BoxStream, FuturesUnordered, SelectAll},
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use threadline_http::{
    negotiation::end_reason,
    observe,
    problem::Problem,
    view::FeedEntryView,
    ws::{
        WebSocket,
        close::{CloseCode, read_error},
    },
};
use tokio_tungstenite::tungstenite::{Error as ReadError, Message, Utf8Bytes};

use crate::{
    api::{
        ApiState,
        socket::{
            answers::{Answer, error_frame, hello, in_thread, run_frame},
            appends::Appends,
            close_handshake,
            frames::{
                self, Append, CLIENT_FRAMES, ClientFrame, ClientMessage, FrameError, FrameTag, Subscribe,
                SubscribeFeed, frame,
            },
            items::{Item, feed_items, groups, log_items, stop_item},
        },
    },
    domain::{
        Epoch, NewEvents, Principal, RunId, ThreadId, Timestamp,
        limits::{MAX_SUBSCRIPTIONS, PAGE_BYTES, SOCKET_MAX_INFLIGHT, SOCKET_MAX_INFLIGHT_BYTES},
    },
    metrics::GaugeGuard,
    service::{ServiceError, StoreError},
    subscription::{Delivery, FeedDelivery, FollowMethod, TopicState},
};

struct ThreadSubscription {
    abort: AbortHandle,
    epoch: Epoch,
    state: watch::Receiver<TopicState>,
}

struct Session {
    state: ApiState,
    principal: Principal,
    items: SelectAll<BoxStream<'static, Item>>,
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    appends: Appends,
    /// Size of the frames that wait for an answer, in bytes.
    bytes_under_way: usize,
    threads: HashMap<ThreadId, ThreadSubscription>,
    feed: Option<AbortHandle>,
    producing: HashSet<(ThreadId, RunId)>,
    out: Vec<Message>,
    out_bytes: usize,
    /// Commit time of the oldest live event among the pending messages.
    oldest: Option<Timestamp>,
    /// End of the pause during which the client is read no further, because it sends more than its limit.
    paused: Option<Instant>,
}

/// Serves a socket until it ends.
pub async fn run(state: ApiState, principal: Principal, mut socket: WebSocket, understood: bool) {
    let metrics = state.service.metrics().clone();
    let _present = GaugeGuard::new(&metrics.sockets);
    let mut session = Session {
        state,
        principal,
        items: SelectAll::new(),
        answers: FuturesUnordered::new(),
        appends: Appends::default(),
        bytes_under_way: 0,
        threads: HashMap::new(),
        feed: None,
        producing: HashSet::new(),
        out: Vec::new(),
        out_bytes: 0,
        oldest: None,
        paused: None,
    };
    let code = if understood { session.serve(&mut socket).await } else { Some(CloseCode::UnsupportedVersion) };
    // Subscriptions end before the close handshake, which may take long.
    session.items.clear();
    match code {
        Some(code) => {
            metrics.socket_closed(code.reason());
            close_handshake::close(&mut socket, code, session.state.http.close).await;
        }
        None => close_handshake::answer(&mut socket, session.state.http.close).await,
    }
}

impl Session {
    /// Serves until the client disconnects (`None`) or must be disconnected (the close code).
    async fn serve(&mut self, socket: &mut WebSocket) -> Option<CloseCode> {
        let welcome = json!({ "protocol": super::PROTOCOL, "heartbeatSeconds": self.state.http.heartbeat.as_secs() });
        self.push(None, "welcome", &welcome);
        let draining = self.state.http.draining.clone();
        let mut beat = time::interval_at(Instant::now() + self.state.http.heartbeat, self.state.http.heartbeat);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let idle = self.state.http.quota.limits().socket_idle;
        let mut heard = Instant::now();
        let mut credential = self.state.http.auth.watch(&self.principal);
        let mut read_before = true;
        loop {
            if let Err(code) = self.flush(socket).await {
                return code;
            }
            let reads = self.may_read();
            if !std::mem::replace(&mut read_before, reads) && reads {
                // The client was not read meanwhile: an incomplete message gets its complete timeout again.
                socket.restart_deadline();
            }
            tokio::select! {
                message = socket.recv(), if reads => {
                    heard = Instant::now();
                    let mut next = Some(message);
                    // Messages that arrived together share one pass of this loop.
                    while let Some(message) = next {
                        if let Err(code) = self.read(message).await {
                            return code;
                        }
                        let more = self.may_read() && self.out_bytes < PAGE_BYTES;
                        next = if more { socket.recv().now_or_never() } else { None };
                    }
                }
                () = time::sleep_until(self.paused.unwrap_or(heard)), if self.paused.is_some() => {
                    self.paused = None;
                    // The client was not read meanwhile: its idle time starts again.
                    heard = Instant::now();
                }
                Some(item) = self.items.next(), if !self.items.is_empty() => {
                    if let Err(code) = self.write(item) {
                        return Some(code);
                    }
                }
                Some(answer) = self.answers.next(), if !self.answers.is_empty() => self.answer(answer),
                Some(answer) = self.appends.next(), if self.appends.len() > 0 => self.answer(answer),
                _ = beat.tick() => {
                    if self.paused.is_none() && heard.elapsed() > idle {
                        return Some(CloseCode::Idle);
                    }
                    self.heartbeat();
                }
                () = draining.cancelled() => return Some(CloseCode::Draining),
                () = credential.expired() => return Some(CloseCode::CredentialOver),
            }
            if let Err(code) = self.gather() {
                return Some(code);
            }
        }
    }

    /// Carries out a message of the client; `Err(None)` if the client has disconnected.
    async fn read(&mut self, message: Option<Result<Message, ReadError>>) -> Result<(), Option<CloseCode>> {
        match message {
            Some(Ok(Message::Text(text))) => self.take(text.as_str()).await.map_err(Some),
            Some(Ok(Message::Binary(_))) => Err(Some(CloseCode::BadFrame)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(()),
            Some(Ok(Message::Close(_))) | None => Err(None),
            Some(Err(error)) => Err(read_error(&error)),
        }
    }

    /// Adds the answers and items that are ready now, so that they share the flush.
    fn gather(&mut self) -> Result<(), CloseCode> {
        while self.out_bytes < PAGE_BYTES {
            if let Some(answer) = self.appends.ready() {
                self.answer(answer);
            } else if let Some(Some(answer)) = self.answers.next().now_or_never() {
                self.answer(answer);
            } else if let Some(Some(item)) = self.items.next().now_or_never() {
                self.write(item)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Writes the pending messages; `Err(None)` if the client has disconnected.
    async fn flush(&mut self, socket: &mut WebSocket) -> Result<(), Option<CloseCode>> {
        if self.out.is_empty() {
            return Ok(());
        }
        // Slow reading is allowed, down to the rate `slowest_read`. (A client that reads nothing at all is disconnected
        // below.)
        let limits = self.state.http.quota.limits();
        let patience = limits.write + Duration::from_secs((self.out_bytes / limits.slowest_read.max(1)) as u64);
        self.out_bytes = 0;
        let write = async {
            for message in self.out.drain(..) {
                socket.feed(message).await?;
            }
            socket.flush().await
        };
        match time::timeout(patience, write).await {
            Ok(Ok(())) => {
                self.count_delivery();
                Ok(())
            }
            Ok(Err(_)) => Err(None),
            Err(_) => Err(Some(CloseCode::SlowConsumer)),
        }
    }

    /// Counts the delivery of the messages that were written, with one reading of the clock: the oldest event counts
    /// for all of them.
    fn count_delivery(&mut self) {
        if let Some(oldest) = self.oldest.take() {
            let service = &self.state.service;
            service.metrics().following.socket_delivery.time(observe::age(service.clock(), oldest));
        }
    }

    fn text(&mut self, text: Utf8Bytes) {
        self.out_bytes += text.len();
        self.out.push(Message::Text(text));
    }

    /// True if the client may send more, and have more in flight. Otherwise the client is read no further.
    fn may_read(&self) -> bool {
        self.paused.is_none()
            && self.answers.len() + self.appends.len() < SOCKET_MAX_INFLIGHT
            && self.bytes_under_way < SOCKET_MAX_INFLIGHT_BYTES
    }

    fn answer(&mut self, answer: Answer) {
        self.bytes_under_way -= answer.bytes;
        self.text(answer.text.into());
    }

    /// Answers once the future completes; `bytes` is the size of the frame that is answered.
    fn later(&mut self, bytes: usize, answer: impl Future<Output = String> + Send + 'static) {
        self.bytes_under_way += bytes;
        self.answers.push(Box::pin(async move { Answer { text: answer.await, bytes } }));
    }

    fn push(&mut self, id: Option<&str>, name: &str, body: &serde_json::Value) {
        self.text(frame(id, name, body).into());
    }

    fn refuse(&mut self, id: Option<&str>, problem: impl Into<Problem>) {
        self.text(error_frame(id, problem.into()).into());
    }

    fn heartbeat(&mut self) {
        let tails: Vec<_> = self
            .threads
            .iter()
            .map(|(thread, followed)| {
                json!({
                    "threadId": thread.as_str(),
                    "epoch": followed.epoch.to_string(),
                    "tail": followed.state.borrow().tail,
                })
            })
            .collect();
        self.push(None, "heartbeat", &json!({ "tails": tails }));
        // The pong to this ping shows that the client is alive.
        self.out.push(Message::Ping(bytes::Bytes::new()));
    }

    /// Carries out a frame of the client.
    async fn take(&mut self, text: &str) -> Result<(), CloseCode> {
        let ClientMessage { id, frame } = match frames::parse(text) {
            Ok(message) => message,
            Err(FrameError::NotJson) => return Err(CloseCode::BadFrame),
            Err(FrameError::Invalid(id, reason)) => {
                self.paused = self.state.http.quota.pace(&self.principal, 1, 0);
                self.refuse(id.as_deref(), Problem::invalid(format!("invalid frame: {reason}")));
                return Ok(());
            }
        };
        let appended = if matches!(frame, ClientFrame::Append(_)) { text.len() } else { 0 };
        self.paused = self.state.http.quota.pace(&self.principal, 1, appended);
        if let Err(error) = CLIENT_FRAMES.check(frame.name(), &self.principal) {
            self.refuse(id.as_deref(), error);
            return Ok(());
        }
        match frame {
            ClientFrame::Subscribe(subscribe) => self.subscribe(id.as_deref(), subscribe).await,
            ClientFrame::Unsubscribe(thread) => {
                if let Some(followed) = self.threads.remove(&thread.thread_id) {
                    followed.abort.abort();
                }
                let ended = json!({ "threadId": thread.thread_id.as_str(), "reason": "unsubscribed" });
                self.push(id.as_deref(), "ended", &ended);
            }
            ClientFrame::SubscribeFeed(subscribe) => self.subscribe_feed(id.as_deref(), subscribe).await,
            ClientFrame::UnsubscribeFeed => {
                if let Some(feed) = self.feed.take() {
                    feed.abort();
                }
                self.push(id.as_deref(), "feedEnded", &json!({ "reason": "unsubscribed" }));
            }
            ClientFrame::Append(append) => self.append(id, append, text.len()).await,
            ClientFrame::Heartbeat(run) => {
                let (runs, principal) = (self.state.service.runs.clone(), self.principal.clone());
                self.later(text.len(), async move {
                    match runs.heartbeat(&principal, &run.thread_id, &run.run_id, None).await {
                        Ok(alive) => run_frame(id.as_deref(), "alive", &run.thread_id, &alive),
                        Err(error) => error_frame(id.as_deref(), in_thread(error.into(), run.thread_id.as_str())),
                    }
                });
            }
            ClientFrame::Stop(run) => {
                let (runs, principal) = (self.state.service.runs.clone(), self.principal.clone());
                self.later(text.len(), async move {
                    match runs.stop(&principal, &run.thread_id, &run.run_id).await {
                        Ok(stopping) => run_frame(id.as_deref(), "stopping", &run.thread_id, &stopping),
                        Err(error) => error_frame(id.as_deref(), in_thread(error.into(), run.thread_id.as_str())),
                    }
                });
            }
            ClientFrame::Ping => self.push(id.as_deref(), "pong", &json!({})),
        }
        Ok(())
    }

    async fn subscribe(&mut self, id: Option<&str>, subscribe: Subscribe) {
        let Subscribe { thread_id, after, epoch, run_id } = subscribe;
        if !self.threads.contains_key(&thread_id)
            && let Err(limited) = self.state.http.quota.subscribe(&self.principal, self.threads.len())
        {
            return self.refuse(id, in_thread(limited.into(), thread_id.as_str()));
        }
        let epoch = epoch.as_deref().map(Epoch::named);
        let events = &self.state.service.events;
        let (run, via) = (run_id.as_ref(), FollowMethod::Socket);
        let subscription = match events.subscribe(&self.principal, &thread_id, after, epoch, run, via).await {
            Ok(subscription) => subscription,
            Err(error) => return self.refuse(id, in_thread(error.into(), thread_id.as_str())),
        };
        let tag = Arc::new(FrameTag::new(thread_id.clone(), subscription.epoch()));
        let (abort, registration) = AbortHandle::new_pair();
        let followed = ThreadSubscription { abort, epoch: tag.epoch, state: subscription.watch() };
        if let Some(before) = self.threads.insert(thread_id, followed) {
            before.abort.abort();
        }
        self.push(id, "hello", &hello(&tag.thread, &subscription, run));
        let present = GaugeGuard::new(&self.state.service.metrics().following.socket);
        self.items.push(Box::pin(stream::Abortable::new(log_items(subscription, tag, present), registration)));
    }

    async fn subscribe_feed(&mut self, id: Option<&str>, subscribe: SubscribeFeed) {
        let feed = &self.state.service.feed;
        match feed.subscribe(&self.principal, subscribe.user_id, subscribe.after).await {
            Ok(subscription) => {
                let (abort, registration) = AbortHandle::new_pair();
                if let Some(before) = self.feed.replace(abort) {
                    before.abort();
                }
                self.push(id, "feedHello", &json!({ "cursor": subscribe.after }));
                let present = GaugeGuard::new(&self.state.service.metrics().following.socket_feed);
                self.items.push(Box::pin(stream::Abortable::new(feed_items(subscription, present), registration)));
            }
            Err(error) => self.refuse(id, error),
        }
    }

    /// Submits events. Appends are submitted in the order of their arrival, and answered once they are durable.
    async fn append(&mut self, id: Option<String>, append: Append<'_>, bytes: usize) {
        let Append { thread_id, run_id, producer_seq, events } = append;
        let (thread, run) = (thread_id.as_str(), run_id.as_str());
        let events = match NewEvents::from_raw_array(events) {
            Ok(events) => events,
            Err(error) => return self.refuse(id.as_deref(), in_thread(ServiceError::from(error).into(), thread)),
        };
        let runs = &self.state.service.runs;
        if let Some(known) = self.appends.known(runs, thread, run) {
            self.bytes_under_way += bytes;
            return self.appends.submit(runs, known, id, producer_seq, events, bytes).await;
        }
        let (thread_id, run_id) = (ThreadId::from(&thread_id), RunId::from(&run_id));
        let known = match runs.look_up(&self.principal, &thread_id, &run_id).await {
            Ok(found) => self.appends.learn(found),
            Err(error) => return self.refuse(id.as_deref(), in_thread(error.into(), thread)),
        };
        self.bytes_under_way += bytes;
        self.appends.submit(runs, known, id, producer_seq, events, bytes).await;
        if !self.watch_for_stop(&thread_id, &run_id).await {
            // The next append tries again.
            self.appends.forget(&thread_id);
        }
    }

    /// Sends the client a frame when a stop of this run is requested. Returns false if the run cannot be watched.
    async fn watch_for_stop(&mut self, thread: &ThreadId, run: &RunId) -> bool {
        let key = (thread.clone(), run.clone());
        if self.producing.contains(&key) {
            return true;
        }
        if self.producing.len() >= MAX_SUBSCRIPTIONS {
            // Beyond the limit, only the answers to appends report the stop.
            return false;
        }
        let events = &self.state.service.events;
        let Ok((topic, fence)) = events.watch_run(&self.principal, thread, run).await else { return false };
        self.producing.insert(key);
        self.items.push(Box::pin(stop_item(topic, fence, thread.clone(), run.clone())));
        true
    }

    /// Encodes an item as frames.
    fn write(&mut self, item: Item) -> Result<(), CloseCode> {
        match item {
            Item::Log { tag, live, cursor, delivery } => {
                let at = json!({ "threadId": tag.thread.as_str(), "epoch": tag.epoch.to_string(), "seq": cursor });
                match delivery.map_err(store_failed)? {
                    Delivery::Events(slice) if live => {
                        self.oldest = self.oldest.or(slice.0.first().map(|batch| batch.at));
                        for batch in &slice.0 {
                            self.text(tag.shared(batch));
                        }
                    }
                    Delivery::Events(slice) => {
                        for group in groups(&slice.0) {
                            self.text(tag.merged(group));
                        }
                    }
                    Delivery::CaughtUp(_) => self.push(None, "caughtUp", &at),
                    Delivery::FellBehind(_) => self.push(None, "fellBehind", &at),
                    Delivery::Ended(reason) => {
                        self.threads.remove(&tag.thread);
                        let mut ended = at;
                        ended["reason"] = end_reason(reason).into();
                        self.push(None, "ended", &ended);
                    }
                }
            }
            Item::Feed(delivery) => match delivery.map_err(store_failed)? {
                FeedDelivery::Entries(entries) => {
                    let cursor = entries.last().map(|entry| entry.cursor);
                    let entries: Vec<_> = entries.iter().map(FeedEntryView::new).collect();
                    self.push(None, "feed", &json!({ "entries": entries, "cursor": cursor }));
                }
                FeedDelivery::CaughtUp(cursor) => self.push(None, "feedCaughtUp", &json!({ "cursor": cursor })),
                FeedDelivery::Ended => {
                    self.feed = None;
                    self.push(None, "feedEnded", &json!({ "reason": "user-erased" }));
                }
            },
            Item::Over(thread, run) => {
                self.appends.forget(&thread);
                self.producing.remove(&(thread, run));
            }
            Item::Stop(thread, run) => {
                let stop = json!({ "threadId": thread.as_str(), "runId": run.as_str() });
                self.push(None, "stopRequested", &stop);
            }
        }
        Ok(())
    }
}

fn store_failed(error: StoreError) -> CloseCode {
    tracing::warn!(%error, "closing a socket: the store failed");
    CloseCode::ServerError
}
