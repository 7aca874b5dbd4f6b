//! Events of a thread as a stream that outlives connections.

use std::{collections::VecDeque, fmt, pin::Pin, sync::Arc, task, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::{
    Client, ClientError, ClientFrame, Decision, EndReason, QueueState, Retry, Socket,
    backoff::chance,
    follow::{Follow, Step},
};
use threadline_core::Seq;

/// Missed heartbeats after which a connection counts as broken.
const MISSED_HEARTBEATS: u32 = 3;

/// Start of a tail, and the events that it follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TailOptions {
    /// Seq of the last event already seen; 0 for all events. Above 0 only with `epoch`.
    pub after: Seq,
    /// Epoch that `after` belongs to.
    pub epoch: Option<String>,
    /// Id of a run: only its events; the stream ends with the run.
    pub run: Option<String>,
}

/// Item of a followed thread's stream.
#[derive(Debug)]
pub enum TailItem {
    /// The connection is made; repeated after every reconnect.
    Hello {
        /// Incarnation of the log. To resume in another process, keep it together with the last seq.
        epoch: String,
        /// Seq of the newest event.
        tail: Seq,
    },
    /// The next event. Over the complete life of the stream seqs are dense: none is left out or delivered twice.
    Event {
        /// Position of the event in the thread.
        seq: Seq,
        /// Id of the run that appended the event.
        run_id: Arc<str>,
        /// Time of the commit.
        at: Arc<str>,
        /// Payload of the event, byte for byte.
        event: Box<RawValue>,
    },
    /// All stored events up to this seq were delivered; later ones are live.
    CaughtUp(Seq),
    /// The stream is no longer live: history is read again from this seq on. No event is lost.
    FellBehind(Seq),
    /// The queue of the thread: after the first [`TailItem::CaughtUp`] of a connection if turns wait or the queue is held, and
    /// after each change. Changes that follow one another quickly may be one item. The stream of one run has none.
    Queue(QueueState),
    /// The server has lost events, but none that was delivered here: later events belong to another epoch. Keep it in
    /// place of the earlier one.
    Rebased {
        /// Epoch of the events before.
        from: String,
        /// Epoch of the events from now on.
        epoch: String,
    },
    /// The connection is lost; another one is made.
    Reconnecting {
        /// Cursor that the stream continues from.
        after: Seq,
        /// Wait before the next connection is made.
        wait: Duration,
        /// Error that ended the connection.
        error: ClientError,
    },
    /// The subscription has ended. No item follows.
    Ended {
        /// Reason for the end.
        reason: EndReason,
    },
}

impl Client {
    /// Follows a thread from a cursor on: first the stored events, then new ones as they arrive.
    ///
    /// The stream connects when first polled, and reconnects automatically, after the wait that the server names or
    /// with exponential back-off and full jitter; the waits begin at their shortest again once an event or a heartbeat
    /// has arrived. An error is the last item, and occurs only if no reconnect can help: the thread does not exist
    /// (`thread-not-found`), its log is another (`log-replaced`, `cursor-ahead`), the key is wrong (`unauthorized`), or
    /// the other side is not a Threadline server. After a `log-replaced`, [`super::Problem::common_cursor`] tells which of
    /// the delivered events are still valid.
    ///
    /// The stream reads ahead no more than one frame, so one that is not polled holds little memory. If it is not
    /// polled for longer than a minute the server may close the connection; polling continues from the cursor.
    pub fn tail(&self, thread: &str, options: TailOptions) -> Tail {
        let driver = Driver {
            client: self.clone(),
            follow: Follow::new(thread, options),
            retry: Retry::new(self.config().backoff),
            socket: None,
            queue: VecDeque::new(),
            failed: None,
            wait: Duration::ZERO,
            done: false,
        };
        let items = stream::unfold(driver, |mut driver| async move {
            let item = driver.next().await?;
            Some((item, driver))
        });
        // Fused, because a loop over several streams may poll again after the end.
        Tail(Box::pin(items.fuse()))
    }
}

/// Stream of [`Client::tail`]. Dropping it closes the connection.
pub struct Tail(Pin<Box<dyn Stream<Item = Result<TailItem, ClientError>> + Send>>);

impl Stream for Tail {
    type Item = Result<TailItem, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> task::Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").finish_non_exhaustive()
    }
}

struct Driver {
    client: Client,
    follow: Follow,
    retry: Retry,
    socket: Option<Socket>,
    queue: VecDeque<TailItem>,
    failed: Option<ClientError>,
    wait: Duration,
    done: bool,
}

impl Driver {
    async fn next(&mut self) -> Option<Result<TailItem, ClientError>> {
        loop {
            // Items that arrived before a failure are still delivered before it.
            if let Some(item) = self.queue.pop_front() {
                return Some(Ok(item));
            }
            if let Some(error) = self.failed.take() {
                self.socket = None;
                return Some(match self.retry.failed(&error, chance()) {
                    Decision::GiveUp => {
                        self.done = true;
                        Err(error)
                    }
                    Decision::RetryAfter(wait) => {
                        self.wait = wait;
                        Ok(TailItem::Reconnecting { after: self.follow.cursor(), wait, error })
                    }
                });
            }
            if self.done {
                return None;
            }
            if !self.wait.is_zero() {
                sleep(self.wait).await;
                self.wait = Duration::ZERO;
            }
            self.failed = self.advance().await.err();
        }
    }

    /// Takes in one frame; connects first if there is no connection.
    async fn advance(&mut self) -> Result<(), ClientError> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            None => {
                let mut socket = self.client.socket().await?;
                socket.send(Some("subscribe"), &self.follow.subscribe()).await?;
                self.socket.insert(socket)
            }
        };
        let limit = socket.heartbeat() * MISSED_HEARTBEATS;
        let (_, frame) = timeout(limit, socket.next()).await.map_err(|_| ClientError::Transport {
            url: self.client.config().url.clone(),
            cause: format!("nothing was heard for {} s", limit.as_secs()),
        })??;
        match self.follow.frame(frame, &mut self.queue)? {
            Step::Nothing => {}
            Step::Progress => self.retry.progress(),
            Step::Alive => {
                self.retry.progress();
                // The server closes connections that send nothing.
                socket.send(None, &ClientFrame::Ping {}).await?;
            }
            Step::Done => {
                self.done = true;
                self.socket = None;
            }
        }
        Ok(())
    }
}
