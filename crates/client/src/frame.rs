//! Socket frames: JSON text in which exactly one top-level member names the frame.
//!
//! Events are part of a frame as their own bytes. [`ServerFrame`] is generic over how they are held: `Box<RawValue>`
//! (the default) owns them; `&RawValue` borrows from the frame's text and costs no allocation per event, which is how a
//! replay of millions of events is read.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ClientError, FeedEntry, Problem, QueueState, Run};
use threadline_core::Seq;

/// Frame that a client sends.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ClientFrame {
    /// Follow a thread from a cursor. A second subscription to the same thread replaces the first.
    Subscribe {
        /// Id of the thread.
        thread_id: String,
        /// Seq of the last event already seen; 0 for all events. Above 0 only with `epoch`.
        after: Seq,
        /// Epoch that `after` belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<String>,
        /// Id of a run: only its events, and the subscription ends with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    /// End the subscription to a thread.
    Unsubscribe {
        /// Id of the thread.
        thread_id: String,
    },
    /// Follow the user's list of threads.
    SubscribeFeed {
        /// Epoch of `after`; required above 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<String>,
        /// Last feed position already seen.
        after: u64,
        /// Id of the user whose list is followed, if the principal is a complete project.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<String>,
    },
    /// End the subscription to the list of threads.
    UnsubscribeFeed {},
    /// Append events to a run.
    Append {
        /// Id of the thread.
        thread_id: String,
        /// Id of the run.
        run_id: String,
        /// Number of the first event; makes a repetition harmless.
        #[serde(skip_serializing_if = "Option::is_none")]
        producer_seq: Option<u64>,
        /// JSON array of events, sent as it is: see [`event_array`].
        events: Box<RawValue>,
    },
    /// Heartbeat of a run's producer, which extends the lease.
    Heartbeat {
        /// Id of the thread.
        thread_id: String,
        /// Id of the run.
        run_id: String,
    },
    /// Request a run to stop.
    Stop {
        /// Id of the thread.
        thread_id: String,
        /// Id of the run.
        run_id: String,
    },
    /// Keep an idle connection from being closed by the server.
    Ping {},
}

impl ClientFrame {
    /// Text of the frame, with an id that the server's answer will carry.
    pub fn to_text(&self, id: Option<&str>) -> Result<String, ClientError> {
        #[derive(Serialize)]
        struct Outer<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            #[serde(flatten)]
            frame: &'a ClientFrame,
        }
        serde_json::to_string(&Outer { id, frame: self })
            .map_err(|error| ClientError::Config(format!("cannot write the frame: {error}")))
    }
}

/// Array for a [`ClientFrame::Append`] from events that are one a line, as in [`threadline_core::NewEvents`]. Fails
/// with [`ClientError::Config`] if a line is not JSON.
pub fn event_array(lines: &[u8]) -> Result<Box<RawValue>, ClientError> {
    let invalid = |error: String| ClientError::Config(format!("these events are not one JSON object a line: {error}"));
    let text = std::str::from_utf8(lines).map_err(|error| invalid(error.to_string()))?;
    let array = format!("[{}]", text.trim_end_matches('\n').replace('\n', ","));
    RawValue::from_string(array).map_err(|error| invalid(error.to_string()))
}

/// Contiguous events of one run: event `i` has seq `seq + i`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventBatch<E = Box<RawValue>> {
    /// Seq of the first event.
    pub seq: Seq,
    /// Id of the run that appended the events.
    pub run_id: Arc<str>,
    /// Time of the commit.
    pub at: Arc<str>,
    /// Events in ascending order of their seqs.
    pub events: Vec<E>,
}

/// Contiguous piece of a thread's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Events<E = Box<RawValue>> {
    /// Id of the thread.
    pub thread_id: Arc<str>,
    /// Incarnation of the thread's log.
    pub epoch: Arc<str>,
    /// Batches of events, in ascending order.
    pub batches: Vec<EventBatch<E>>,
}

/// Position of a reader in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Cursor: the seq up to which events were sent.
    pub seq: Seq,
}

/// Beginning of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the thread's newest event.
    pub tail: Seq,
    /// Cursor that the subscription starts from.
    pub after: Seq,
    /// Id of the run that the subscription is bounded to, if any.
    pub run_id: Option<String>,
}

/// Reason for the end of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The run that the subscription was bounded to has ended, and all its events were delivered.
    RunEnded,
    /// The thread was deleted.
    ThreadDeleted,
    /// The server has lost events that this subscription has delivered.
    LogReplaced,
    /// The next events are damaged in the server's store.
    LogDamaged,
    /// The client has unsubscribed from the thread.
    Unsubscribed,
    /// A reason that this client does not know.
    #[serde(other)]
    Other,
}

impl EndReason {
    /// Name of the reason on the wire; `ended` for an unknown one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunEnded => "run-ended",
            Self::ThreadDeleted => "thread-deleted",
            Self::LogReplaced => "log-replaced",
            Self::LogDamaged => "log-damaged",
            Self::Unsubscribed => "unsubscribed",
            Self::Other => "ended",
        }
    }
}

/// End of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Id of the thread.
    pub thread_id: String,
    /// Cursor at the end, if the server knows it.
    pub seq: Option<Seq>,
    /// Reason for the end.
    pub reason: EndReason,
    /// Incarnation of the present log.
    pub epoch: Option<String>,
    /// Seq of the present log's newest event, if the log was replaced.
    pub tail: Option<Seq>,
    /// Seq up to which the delivered events are those of the present log, if the log was replaced; `None` if nothing is
    /// known to be common.
    pub common_up_to: Option<Seq>,
    /// Seq of the first damaged event, if the log is damaged.
    pub first_seq: Option<Seq>,
    /// Seq up to which the events are known to be damaged, if the log is damaged.
    pub last_seq: Option<Seq>,
}

/// A log that continues under another epoch: the server has lost events, but none that this subscription has delivered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebased {
    /// Id of the thread.
    pub thread_id: String,
    /// Epoch of the events before.
    pub from: String,
    /// Epoch of the events from now on.
    pub epoch: String,
    /// Cursor of the subscription, up to which both epochs have the same events.
    pub after: Seq,
}

/// Receipt for events of a run that were stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedFrame {
    /// Id of the thread.
    pub thread_id: String,
    /// Id of the run.
    pub run_id: String,
    /// Seq of the batch's first event.
    pub first_seq: Seq,
    /// Seq of the batch's last event.
    pub last_seq: Seq,
    /// Number of the run's newest stored event.
    pub producer_seq: u64,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// True if a client has requested the run to stop.
    pub stop_requested: bool,
}

/// Run with its thread, by their ids.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunName {
    /// Id of the thread.
    pub thread_id: String,
    /// Id of the run.
    pub run_id: String,
}

/// Tail of a followed thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailMark {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Seq of the thread's newest event.
    pub tail: Seq,
}

/// Change of the queue of a followed thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueFrame {
    /// Id of the thread.
    pub thread_id: String,
    /// Incarnation of the thread's log.
    pub epoch: String,
    /// Queue as it is now.
    #[serde(flatten)]
    pub state: QueueState,
}

/// Frame that the server sends.
#[derive(Debug, Clone)]
pub enum ServerFrame<E = Box<RawValue>> {
    /// First frame of a connection.
    Welcome {
        /// Name of the protocol, `threadline.v1`.
        protocol: String,
        /// Heartbeat interval of the server.
        heartbeat: Duration,
    },
    /// A subscription begins; earlier frames of the same thread belong to an earlier subscription.
    Hello(Hello),
    /// Events of a subscribed thread.
    Events(Events<E>),
    /// The subscription has reached the tail.
    CaughtUp(Position),
    /// The subscription is behind the tail again, and replays.
    FellBehind(Position),
    /// The subscription continues under another epoch.
    Rebased(Rebased),
    /// The queue of a followed thread is not empty or rests, or has changed.
    Queue(QueueFrame),
    /// The subscription of a thread has ended.
    Ended(Ended),
    /// The subscription of the feed begins.
    FeedHello {
        /// Incarnation of the feed, to which the following positions belong.
        epoch: String,
        /// Feed position that the subscription starts from.
        cursor: u64,
    },
    /// The feed continues under another epoch.
    FeedRebased {
        /// Epoch of the positions from now on.
        epoch: String,
        /// Feed position up to which both are the same.
        cursor: u64,
    },
    /// Changes in the list of threads.
    Feed {
        /// Changes in the order of their feed positions.
        entries: Vec<FeedEntry>,
        /// Feed position after these changes.
        cursor: u64,
    },
    /// The subscription has reached the end of the feed.
    FeedCaughtUp {
        /// Feed position that was reached.
        cursor: u64,
    },
    /// The subscription of the feed ends.
    FeedEnded,
    /// Answer to an append.
    Appended(AppendedFrame),
    /// A client has requested a run to stop that this connection appends to.
    StopRequested(RunName),
    /// Answer to a stop.
    Stopping(Box<Run>),
    /// Answer to the heartbeat of a run.
    Alive(Box<Run>),
    /// Answer to a ping.
    Pong,
    /// Heartbeat of the server: the connection is alive.
    Heartbeat {
        /// Tails of the followed threads.
        tails: Vec<TailMark>,
        /// Position of the feed, if it is followed.
        feed_cursor: Option<u64>,
    },
    /// The server has refused a frame of this client.
    Error(Box<Problem>),
    /// The connection is about to be closed.
    Closing {
        /// Close code that will follow.
        code: u16,
        /// Reason in the server's words, possibly empty.
        reason: String,
        /// Time to wait before the next connection; `None` if the server names none.
        retry_after: Option<Duration>,
    },
    /// A frame that this client does not know, and may ignore.
    Unknown,
}
