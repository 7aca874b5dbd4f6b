//! One socket: carries out the client's frames, and encodes deliveries. `protocol.rs` connects the session to the driver.
//!
//! No queue exists per subscriber: a delivery is taken from its subscription only when the previous one has been written.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures_util::{
    future::BoxFuture,
    stream::{self, AbortHandle, BoxStream, FuturesUnordered, SelectAll},
};
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use threadline_core::{
    Epoch, NewEvents, Principal, RunId, ThreadId, Timestamp,
    limits::{MAX_SUBSCRIPTIONS, SOCKET_MAX_INFLIGHT, SOCKET_MAX_INFLIGHT_BYTES},
};
use threadline_engine::{
    ServiceError, StoreError,
    metrics::GaugeGuard,
    subscription::{Delivery, FeedDelivery, FollowMethod, TopicState},
};
use threadline_http::{
    cursor::{Start, after_in_feed, after_in_log},
    negotiation::{ended, feed_ended},
    observe,
    problem::Problem,
    view::{FeedEntryView, queue_frame},
    ws::{close::CloseCode, protocol::Outbox},
};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::api::{
    ApiState,
    socket::{
        answers::{Answer, error_frame, feed_hello, feed_rebased, hello, in_thread, run_frame},
        appends::Appends,
        frames::{
            self, Append, CLIENT_FRAMES, ClientFrame, ClientMessage, FrameError, FrameTag, Subscribe, SubscribeFeed,
            frame,
        },
        items::{Item, feed_items, groups, log_items, stop_item},
    },
    validating::{AppendAt, check_append},
};

struct ThreadSubscription {
    abort: AbortHandle,
    epoch: Epoch,
    state: watch::Receiver<TopicState>,
}

pub(super) struct Session {
    state: ApiState,
    principal: Principal,
    pub(super) items: SelectAll<BoxStream<'static, Item>>,
    pub(super) answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    pub(super) appends: Appends,
    /// Size of the frames that wait for an answer, in bytes.
    bytes_under_way: usize,
    threads: HashMap<ThreadId, ThreadSubscription>,
    feed: Option<AbortHandle>,
    producing: HashSet<(ThreadId, RunId)>,
    pub(super) out: Outbox,
    /// Commit time of the oldest live event among the pending messages.
    oldest: Option<Timestamp>,
    /// End of the pause during which the client is read no further, because it sends more than its limit.
    pub(super) paused: Option<Instant>,
}

impl Session {
    pub(super) fn new(state: ApiState, principal: Principal) -> Self {
        Self {
            state,
            principal,
            items: SelectAll::new(),
            answers: FuturesUnordered::new(),
            appends: Appends::default(),
            bytes_under_way: 0,
            threads: HashMap::new(),
            feed: None,
            producing: HashSet::new(),
            out: Outbox::default(),
            oldest: None,
            paused: None,
        }
    }

    pub(super) fn welcome(&mut self) {
        let welcome = json!({ "protocol": super::PROTOCOL, "heartbeatSeconds": self.state.http.heartbeat.as_secs() });
        self.push(None, "welcome", &welcome);
    }

    /// Counts the delivery of the messages that were written, with one reading of the clock: the oldest event counts
    /// for all of them.
    pub(super) fn count_delivery(&mut self) {
        if let Some(oldest) = self.oldest.take() {
            let service = &self.state.service;
            service.metrics().following.socket_delivery.time(observe::age(service.clock(), oldest));
        }
    }

    /// True if the client may have more in flight.
    pub(super) fn has_room(&self) -> bool {
        self.answers.len() + self.appends.len() < SOCKET_MAX_INFLIGHT
            && self.bytes_under_way < SOCKET_MAX_INFLIGHT_BYTES
    }

    fn text(&mut self, text: Utf8Bytes) {
        self.out.text(text);
    }

    pub(super) fn answer(&mut self, answer: Answer) {
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

    pub(super) fn heartbeat(&mut self) {
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
    }

    /// Carries out a frame of the client.
    pub(super) async fn take(&mut self, text: &str) -> Result<(), CloseCode> {
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
        let Subscribe { thread_id, after, epoch, cursor, run_id } = subscribe;
        let start = Start { after, before: None, epoch: epoch.as_deref(), cursor: cursor.as_deref() };
        let (after, epoch) = match start.followed_in_log() {
            Ok(start) => start,
            Err(problem) => return self.refuse(id, in_thread(problem, thread_id.as_str())),
        };
        if !self.threads.contains_key(&thread_id)
            && let Err(limited) = self.state.http.quota.subscribe(&self.principal, self.threads.len())
        {
            return self.refuse(id, in_thread(limited.into(), thread_id.as_str()));
        }
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
        let SubscribeFeed { after, epoch, cursor, user_id } = subscribe;
        let start = Start { after, before: None, epoch: epoch.as_deref(), cursor: cursor.as_deref() };
        let after = match start.in_feed() {
            Ok(after) => after,
            Err(problem) => return self.refuse(id, problem),
        };
        match self.state.service.feed.subscribe(&self.principal, user_id, after).await {
            Ok(subscription) => {
                let (abort, registration) = AbortHandle::new_pair();
                if let Some(before) = self.feed.replace(abort) {
                    before.abort();
                }
                self.push(id, "feedHello", &feed_hello(subscription.cursor()));
                let present = GaugeGuard::new(&self.state.service.metrics().following.socket_feed);
                self.items.push(Box::pin(stream::Abortable::new(feed_items(subscription, present), registration)));
            }
            Err(error) => self.refuse(id, error),
        }
    }

    /// Submits events. Appends are submitted in the order of their arrival, and answered once they are durable.
    async fn append(&mut self, id: Option<String>, append: Append<'_>, bytes: usize) {
        let Append { thread_id, run_id, producer_seq, events, validate } = append;
        let (thread, run) = (thread_id.as_str(), run_id.as_str());
        let events = match NewEvents::from_raw_array(events) {
            Ok(events) => events,
            Err(error) => return self.refuse(id.as_deref(), in_thread(ServiceError::from(error).into(), thread)),
        };
        let place =
            || AppendAt { thread: ThreadId::from(&thread_id), run: RunId::from(&run_id), attempt: None, producer_seq };
        if let Err(problem) = check_append(&self.state, &self.principal, validate, &events, place).await {
            return self.refuse(id.as_deref(), in_thread(problem, thread));
        }
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
    pub(super) fn write(&mut self, item: Item) -> Result<(), CloseCode> {
        match item {
            Item::Log { tag, live, cursor, delivery } => {
                let at = || json!({ "threadId": tag.thread.as_str(), "epoch": tag.epoch.to_string(), "seq": cursor });
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
                    Delivery::CaughtUp(_) => {
                        let mut at = at();
                        at["nextCursor"] = after_in_log(tag.epoch, cursor).into();
                        self.push(None, "caughtUp", &at);
                    }
                    Delivery::FellBehind(_) => self.push(None, "fellBehind", &at()),
                    Delivery::Queue(queue) => {
                        let mut frame = queue_frame(tag.epoch, queue);
                        frame["threadId"] = tag.thread.as_str().into();
                        self.push(None, "queue", &frame);
                    }
                    Delivery::Rebased { from, epoch } => {
                        if let Some(followed) = self.threads.get_mut(&tag.thread) {
                            followed.epoch = epoch;
                        }
                        let rebased = json!({
                            "threadId": tag.thread.as_str(), "from": from.to_string(), "epoch": epoch.to_string(),
                            "after": cursor,
                        });
                        self.push(None, "rebased", &rebased);
                    }
                    Delivery::Ended(reason) => {
                        self.threads.remove(&tag.thread);
                        let mut ended = ended(reason, cursor);
                        ended["threadId"] = tag.thread.as_str().into();
                        if ended.get("epoch").is_none() {
                            ended["epoch"] = tag.epoch.to_string().into();
                        }
                        self.push(None, "ended", &ended);
                    }
                }
            }
            Item::Feed { cursor: seen, delivery } => match delivery.map_err(store_failed)? {
                FeedDelivery::Entries(entries) => {
                    let cursor = entries.last().map(|entry| entry.cursor);
                    let entries: Vec<_> = entries.iter().map(FeedEntryView::new).collect();
                    self.push(None, "feed", &json!({ "entries": entries, "cursor": cursor }));
                }
                FeedDelivery::CaughtUp(cursor) => {
                    let caught_up = json!({ "cursor": cursor, "nextCursor": after_in_feed(seen) });
                    self.push(None, "feedCaughtUp", &caught_up);
                }
                FeedDelivery::Rebased { from, .. } => self.push(None, "feedRebased", &feed_rebased(from, seen)),
                FeedDelivery::Ended(replaced) => {
                    self.feed = None;
                    self.push(None, "feedEnded", &feed_ended(replaced));
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
