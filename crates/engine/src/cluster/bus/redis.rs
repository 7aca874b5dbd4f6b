//! The bus over Redis pub/sub: one channel a thread or feed, subscribed to while a client of this node follows it.
//!
//! ```text
//!   tell ─► pending (newest hint a channel) ─► one pipeline of PUBLISH after the other
//!   listen, ignore ─► wanted ─► SUBSCRIBE, UNSUBSCRIBE on a connection of its own ─► heard
//! ```
//!
//! A lost connection is opened again and subscribes to all wanted channels, and the node receives a resync: messages
//! sent meanwhile are lost. Pings detect a connection that does not respond.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::StreamExt;
use redis::{Msg, RedisResult, aio::PubSubSink, pipe};
use threadline_core::{
    Epoch, FeedCursor, Fence, Generation, Hold, NodeId, ProjectId, QueueState, ThreadKey, UserId,
    limits::{BUS_PENDING, BUS_PIPELINE, BUS_QUEUE, REDIS_PING, REDIS_TIMEOUT},
    streams::StreamKey,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    time,
};
use tokio_util::task::AbortOnDropHandle;

use super::{Bus, BusEnd, BusMessage, Channel, Hint, Question, StreamNews, ThreadNews};
use crate::cluster::{
    redis_connection::{self, RedisConnection},
    redis_servers::RedisServers,
};

/// Bus over Redis pub/sub, with its sending and its receiving task.
struct RedisBus {
    shared: Arc<Shared>,
    link: RedisConnection,
    /// Number of the last echo that was sent.
    echo: AtomicU64,
    // Aborted when the bus is dropped.
    _tasks: [AbortOnDropHandle<()>; 2],
}

struct Shared {
    /// Prefix of every channel name: two installations may share one Redis.
    prefix: String,
    /// Unsent hints: the newest one of a thread or feed replaces the one before; questions and answers are kept by
    /// number.
    pending: Mutex<HashMap<(Channel, u64), Hint>>,
    to_tell: Notify,
    wanted: Mutex<HashSet<Channel>>,
    wishes: Notify,
    heard: mpsc::Sender<BusMessage>,
    missed: AtomicBool,
    /// Channel of this node's messages to itself.
    own: String,
    /// True while the node is subscribed.
    listening: watch::Sender<bool>,
    /// Number of the last echo that was received.
    echoed: watch::Sender<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins the bus, on channels that begin with `prefix`. The bus works as soon as Redis can be reached. Must be called
/// inside a tokio runtime.
pub fn join(servers: RedisServers, prefix: &str) -> BusEnd {
    let (sender, heard) = mpsc::channel(BUS_QUEUE);
    let shared = Arc::new(Shared {
        prefix: prefix.to_owned(),
        pending: Mutex::default(),
        to_tell: Notify::new(),
        wanted: Mutex::default(),
        wishes: Notify::new(),
        heard: sender,
        missed: AtomicBool::new(false),
        own: format!("{prefix}echo:{}", NodeId::generate()),
        listening: watch::Sender::default(),
        echoed: watch::Sender::default(),
    });
    let link = RedisConnection::new(servers.clone());
    let telling = tokio::spawn(tell(shared.clone(), link.clone()));
    let hearing = tokio::spawn(hear(shared.clone(), servers));
    let tasks = [AbortOnDropHandle::new(telling), AbortOnDropHandle::new(hearing)];
    BusEnd { bus: Arc::new(RedisBus { shared, link, echo: AtomicU64::new(0), _tasks: tasks }), heard }
}

#[async_trait]
impl Bus for RedisBus {
    fn tell(&self, hint: Hint) {
        let mut pending = locked(&self.shared.pending);
        // State only moves forward, so the newest hint of a channel includes the older ones.
        let place = (hint.channel(), number(&hint));
        if pending.len() < BUS_PENDING || pending.contains_key(&place) {
            pending.insert(place, hint);
            self.shared.to_tell.notify_one();
        }
    }

    fn listen(&self, channel: Channel) {
        locked(&self.shared.wanted).insert(channel);
        self.shared.wishes.notify_one();
    }

    fn ignore(&self, channel: &Channel) {
        locked(&self.shared.wanted).remove(channel);
        self.shared.wishes.notify_one();
    }

    fn has_others(&self) -> bool {
        true
    }

    async fn echo(&self) -> Option<bool> {
        let number = 1 + self.echo.fetch_add(1, Ordering::Relaxed);
        let (mut listening, mut echoed) = (self.shared.listening.subscribe(), self.shared.echoed.subscribe());
        let received = async {
            listening.wait_for(|listening| *listening).await.ok()?;
            let mut command = pipe();
            command.cmd("PUBLISH").arg(&self.shared.own).arg(number).ignore();
            self.link.ask::<()>(&command).await.ok()?;
            echoed.wait_for(|echoed| *echoed >= number).await.ok().map(drop)
        };
        Some(time::timeout(REDIS_TIMEOUT, received).await.is_ok_and(|received| received.is_some()))
    }
}

/// Publishes hints that gather while the previous pipeline runs. While Redis is unavailable, hints are lost.
async fn tell(shared: Arc<Shared>, link: RedisConnection) {
    loop {
        shared.to_tell.notified().await;
        let hints = std::mem::take(&mut *locked(&shared.pending));
        let hints: Vec<Hint> = hints.into_values().collect();
        for chunk in hints.chunks(BUS_PIPELINE) {
            let mut commands = pipe();
            for hint in chunk {
                let (channel, payload) = (shared.name(&hint.channel()), payload(hint));
                commands.cmd("PUBLISH").arg(channel).arg(payload).ignore();
            }
            if let Err(error) = link.ask::<()>(&commands).await {
                tracing::debug!(%error, hints = chunk.len(), "cannot send hints to other nodes; they recheck");
                break;
            }
        }
    }
}

/// Keeps a subscribed connection. Ends when the node drops its receiver.
async fn hear(shared: Arc<Shared>, servers: RedisServers) {
    let mut tries = 0;
    loop {
        match time::timeout(REDIS_TIMEOUT, servers.listen()).await {
            Ok(Ok((connection, master))) => {
                let (sink, stream) = connection.split();
                let mut newest = servers.newest();
                let error = tokio::select! {
                    followed = follow(&shared, sink, stream, &mut tries) => followed.err(),
                    // The server of this connection may live on, without the messages of the others.
                    _ = newest.wait_for(|newest| *newest != master) => None,
                };
                shared.listening.send_replace(false);
                if shared.heard.is_closed() {
                    return;
                }
                tracing::warn!(
                    error = error.map(tracing::field::display),
                    "lost the connection to the bus; followers are rechecked until it is restored"
                );
            }
            Ok(Err(error)) if tries == 0 => tracing::warn!(%error, "cannot connect to the bus; retrying"),
            Err(_) if tries == 0 => tracing::warn!("the bus does not respond; retrying"),
            _ => {}
        }
        time::sleep(redis_connection::pause(tries)).await;
        tries = tries.saturating_add(1);
    }
}

/// Receives messages until the connection breaks.
async fn follow(
    shared: &Shared,
    mut sink: PubSubSink,
    mut stream: impl futures_util::Stream<Item = Msg> + Unpin,
    tries: &mut u32,
) -> RedisResult<()> {
    let mut subscribed = HashSet::new();
    // All channels at once, then one resync for all of them.
    time::timeout(REDIS_TIMEOUT, sink.subscribe(&shared.own)).await.map_err(|_| silent())??;
    reconcile(shared, &mut sink, &mut subscribed).await?;
    shared.listening.send_replace(true);
    if *tries > 0 {
        tracing::info!(channels = subscribed.len(), "the connection to the bus is restored");
    }
    *tries = 0;
    shared.missed.store(true, Ordering::Release);
    let mut ping = time::interval(REDIS_PING);
    ping.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        shared.make_up();
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => shared.hint(&message),
                None => return Ok(()),
            },
            () = shared.wishes.notified() => {
                for channel in reconcile(shared, &mut sink, &mut subscribed).await? {
                    shared.hear(BusMessage::Listening(channel));
                }
            }
            _ = ping.tick() => {
                let answer = time::timeout(REDIS_TIMEOUT, sink.ping::<redis::Value>()).await;
                answer.map_err(|_| silent())??;
            }
        }
    }
}

fn silent() -> redis::RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// Subscribes to channels that are wanted, unsubscribes from those that are not. Returns the new ones.
async fn reconcile(
    shared: &Shared,
    sink: &mut PubSubSink,
    subscribed: &mut HashSet<Channel>,
) -> RedisResult<Vec<Channel>> {
    let (wanted, unwanted): (Vec<_>, Vec<_>) = {
        let now = locked(&shared.wanted);
        (now.difference(subscribed).cloned().collect(), subscribed.difference(&now).cloned().collect())
    };
    for chunk in unwanted.chunks(BUS_PIPELINE) {
        let names: Vec<_> = chunk.iter().map(|channel| shared.name(channel)).collect();
        time::timeout(REDIS_TIMEOUT, sink.unsubscribe(names)).await.map_err(|_| silent())??;
        for channel in chunk {
            subscribed.remove(channel);
        }
    }
    for chunk in wanted.chunks(BUS_PIPELINE) {
        let names: Vec<_> = chunk.iter().map(|channel| shared.name(channel)).collect();
        time::timeout(REDIS_TIMEOUT, sink.subscribe(names)).await.map_err(|_| silent())??;
        subscribed.extend(chunk.iter().cloned());
    }
    Ok(wanted)
}

impl Shared {
    fn hint(&self, message: &Msg) {
        let payload = message.get_payload::<String>().ok();
        if message.get_channel_name() == self.own {
            if let Some(number) = payload.and_then(|payload| payload.parse().ok()) {
                self.echoed.send_replace(number);
            }
            return;
        }
        match payload.and_then(|payload| read(message.get_channel_name().strip_prefix(&self.prefix)?, &payload)) {
            Some(hint) => self.hear(BusMessage::Hint(hint)),
            None => tracing::warn!(channel = message.get_channel_name(), "ignoring an invalid hint"),
        }
    }

    fn hear(&self, heard: BusMessage) {
        if self.heard.try_send(heard).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }

    /// Sends a pending resync to the node as soon as its queue has a free slot.
    fn make_up(&self) {
        if self.missed.load(Ordering::Acquire) && self.heard.try_send(BusMessage::Resync).is_ok() {
            self.missed.store(false, Ordering::Release);
        }
    }

    fn name(&self, channel: &Channel) -> String {
        match channel {
            Channel::Thread(key) => format!("{}thread:{}", self.prefix, key.0),
            // The length marks the end of the project, regardless of its characters.
            Channel::Feed(project, user) => {
                format!("{}feed:{}:{project}:{user}", self.prefix, project.as_str().len())
            }
            Channel::Stream(key) => format!("{}stream:{}", self.prefix, key.0),
            Channel::Questions => format!("{}questions", self.prefix),
            Channel::Answers(node) => format!("{}answers:{node}", self.prefix),
        }
    }
}

fn number(hint: &Hint) -> u64 {
    match hint {
        Hint::Thread(..) | Hint::Feed(..) | Hint::Stream(..) => 0,
        Hint::Question(Question { number, .. }) | Hint::Answer { number, .. } => *number,
    }
}

/// The payload begins with a version: during an upgrade nodes of two releases share a bus.
fn payload(hint: &Hint) -> String {
    match hint {
        Hint::Thread(_, news) => {
            let flags = u8::from(news.active) | u8::from(news.stop_requested) << 1 | u8::from(news.gone) << 2;
            let QueueState { version, queued, held } = news.queue;
            let held = held.map_or(0, Hold::to_i64);
            format!("1 {} {} {} {flags} {version} {queued} {held}", news.generation, news.tail, news.fence.0)
        }
        Hint::Feed(_, _, FeedCursor { epoch, position }) => format!("1 {epoch} {position}"),
        Hint::Stream(_, StreamNews { tail, ended }) => format!("1 {tail} {}", u8::from(*ended)),
        Hint::Question(Question { thread, asker, number }) => format!("1 {} {asker} {number}", thread.0),
        Hint::Answer { number, body, .. } => format!("1 {number} {body}"),
    }
}

/// Parses a message; `None` if it is invalid.
fn read(channel: &str, payload: &str) -> Option<Hint> {
    let rest = payload.strip_prefix("1 ")?;
    let mut numbers = rest.split(' ');
    let hint = match channel.split_once(':').unwrap_or((channel, "")) {
        ("questions", _) => {
            let thread = ThreadKey(numbers.next()?.parse().ok()?);
            let asker = numbers.next()?.to_owned().try_into().ok()?;
            Hint::Question(Question { thread, asker, number: numbers.next()?.parse().ok()? })
        }
        ("answers", asker) => {
            let (number, body) = rest.split_once(' ')?;
            let (asker, number) = (asker.to_owned().try_into().ok()?, number.parse().ok()?);
            Hint::Answer { asker, number, body: body.to_owned() }
        }
        ("thread", key) => {
            let generation = Generation(numbers.next()?.parse().ok()?);
            let (tail, fence) = (numbers.next()?.parse().ok()?, Fence(numbers.next()?.parse().ok()?));
            let flags: u8 = numbers.next()?.parse().ok()?;
            let (active, stop_requested, gone) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            // A node of an earlier release says nothing of queues.
            let mut field = || numbers.next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
            let (version, queued, held) = (field(), field(), field());
            let held = i64::try_from(held).ok().and_then(Hold::from_i64);
            let queue = QueueState { version, queued, held };
            let news = ThreadNews { generation, tail, fence, active, stop_requested, gone, queue };
            Hint::Thread(ThreadKey(key.parse().ok()?), news)
        }
        ("feed", rest) => {
            let (length, ids) = rest.split_once(':')?;
            let (project, user) = ids.split_at_checked(length.parse().ok()?)?;
            let (project, user) = (ProjectId::new(project).ok()?, UserId::new(user.strip_prefix(':')?).ok()?);
            let (epoch, position) = (Epoch::parse(numbers.next()?)?, numbers.next()?.parse().ok()?);
            Hint::Feed(project, user, FeedCursor { epoch, position })
        }
        ("stream", key) => {
            let (tail, ended) = (numbers.next()?.parse().ok()?, numbers.next()? == "1");
            Hint::Stream(StreamKey(key.parse().ok()?), StreamNews { tail, ended })
        }
        _ => return None,
    };
    // Fields that a newer release may append are ignored: a wake-up does not need them.
    Some(hint)
}

/// Reads a message from arbitrary data for fuzzers: the first line is the channel, the rest the payload.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    if let Some((channel, payload)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) {
        let _ = read(channel, payload);
    }
}
