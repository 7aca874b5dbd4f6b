//! Socket frames: JSON text, exactly one top-level member names the frame.
//!
//! Events stand in a frame as their own bytes. [`ServerFrame`] is generic over how they are held:
//! `Box<RawValue>` (the default) owns them; `&RawValue` borrows from the frame's text and costs nothing
//! per event, which is how a replay of millions of events is read.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ClientError, FeedEntry, Problem, Run};
use threadline_core::Seq;

/// What the client says.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ClientFrame {
    /// Follow a thread from a cursor. A second one for the same thread replaces the first.
    Subscribe {
        /// The thread.
        thread_id: String,
        /// The last seq already seen; 0 for all.
        after: Seq,
        /// The epoch that the cursor belongs to.
        #[serde(skip_serializing_if = "Option::is_none")]
        epoch: Option<String>,
        /// Only this run; ends with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    /// Follow it no longer.
    Unsubscribe {
        /// The thread.
        thread_id: String,
    },
    /// Follow the user's list of threads.
    SubscribeFeed {
        /// The last feed position already seen.
        after: u64,
        /// Whose list, where the principal is a whole project.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<String>,
    },
    /// Follow it no longer.
    UnsubscribeFeed {},
    /// Append to a run.
    Append {
        /// The thread.
        thread_id: String,
        /// The run.
        run_id: String,
        /// Number of the first event; makes a repetition harmless.
        #[serde(skip_serializing_if = "Option::is_none")]
        producer_seq: Option<u64>,
        /// A JSON array of events, as it stands: see [`event_array`].
        events: Box<RawValue>,
    },
    /// The producer of a run is alive.
    Heartbeat {
        /// The thread.
        thread_id: String,
        /// The run.
        run_id: String,
    },
    /// Ask a run to stop.
    Stop {
        /// The thread.
        thread_id: String,
        /// The run.
        run_id: String,
    },
    /// Say something, so that an idle connection is not taken for dead.
    Ping {},
}

impl ClientFrame {
    /// The frame's text, with an id that the server's answer will carry.
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

/// The array of an [`ClientFrame::Append`] from events that stand one a line, as in [`threadline_core::NewEvents`].
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
    /// The run.
    pub run_id: Arc<str>,
    /// When they were committed.
    pub at: Arc<str>,
    /// The events.
    pub events: Vec<E>,
}

/// A piece of a thread's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Events<E = Box<RawValue>> {
    /// The thread.
    pub thread_id: Arc<str>,
    /// The incarnation of its log.
    pub epoch: Arc<str>,
    /// The events, in order.
    pub batches: Vec<EventBatch<E>>,
}

/// Where a reader of a thread stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// The cursor.
    pub seq: Seq,
}

/// A subscription begins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// Seq of its newest event.
    pub tail: Seq,
    /// The cursor that the subscription starts from.
    pub after: Seq,
    /// The run that it is bounded to.
    pub run_id: Option<String>,
}

/// Why a subscription has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The run that it was bounded to has ended, and everything of it was delivered.
    RunEnded,
    /// The thread is gone.
    ThreadDeleted,
    /// The client asked.
    Unsubscribed,
    /// A reason that this client does not know.
    #[serde(other)]
    Other,
}

impl EndReason {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunEnded => "run-ended",
            Self::ThreadDeleted => "thread-deleted",
            Self::Unsubscribed => "unsubscribed",
            Self::Other => "ended",
        }
    }
}

/// A subscription ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The thread.
    pub thread_id: String,
    /// The cursor at the end, where the server knows it.
    pub seq: Option<Seq>,
    /// Why.
    pub reason: EndReason,
}

/// Events of a run are stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedFrame {
    /// The thread.
    pub thread_id: String,
    /// The run.
    pub run_id: String,
    /// Seq of the batch's first event.
    pub first_seq: Seq,
    /// Seq of the batch's last event.
    pub last_seq: Seq,
    /// Number of the run's newest stored event.
    pub producer_seq: u64,
    /// The incarnation of the thread's log.
    pub epoch: String,
    /// Whether somebody asked the run to stop.
    pub stop_requested: bool,
}

/// A run, by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunName {
    /// The thread.
    pub thread_id: String,
    /// The run.
    pub run_id: String,
}

/// The newest seq of a followed thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailMark {
    /// The thread.
    pub thread_id: String,
    /// The incarnation of its log.
    pub epoch: String,
    /// Seq of its newest event.
    pub tail: Seq,
}

/// What the server says.
#[derive(Debug, Clone)]
pub enum ServerFrame<E = Box<RawValue>> {
    /// The first frame of a connection.
    Welcome {
        /// The protocol, `threadline.v1`.
        protocol: String,
        /// How often the server says something.
        heartbeat: Duration,
    },
    /// A subscription begins; what came before for the same thread belongs to an earlier one.
    Hello(Hello),
    /// Events of a subscribed thread.
    Events(Events<E>),
    /// The subscription has reached the tail.
    CaughtUp(Position),
    /// The subscription is behind again, and replays.
    FellBehind(Position),
    /// A subscription ends.
    Ended(Ended),
    /// The subscription of the feed begins.
    FeedHello {
        /// Its cursor.
        cursor: u64,
    },
    /// Changes in the list of threads.
    Feed {
        /// The changes.
        entries: Vec<FeedEntry>,
        /// The new cursor.
        cursor: u64,
    },
    /// The feed has reached its end.
    FeedCaughtUp {
        /// The cursor.
        cursor: u64,
    },
    /// The subscription of the feed ends.
    FeedEnded,
    /// Answer to an append.
    Appended(AppendedFrame),
    /// Somebody asked a run that this connection appends to, to stop.
    StopRequested(RunName),
    /// Answer to a stop.
    Stopping(Box<Run>),
    /// Answer to the heartbeat of a run.
    Alive(Box<Run>),
    /// Answer to a ping.
    Pong,
    /// The connection is alive.
    Heartbeat {
        /// The tails of the followed threads.
        tails: Vec<TailMark>,
        /// The position of the feed.
        feed_cursor: Option<u64>,
    },
    /// A frame of ours was refused.
    Error(Box<Problem>),
    /// The connection is about to be closed.
    Closing {
        /// The close code to come.
        code: u16,
        /// The server's words.
        reason: String,
        /// How long to wait before the next connection.
        retry_after: Option<Duration>,
    },
    /// A frame that this client does not know, and may ignore.
    Unknown,
}
