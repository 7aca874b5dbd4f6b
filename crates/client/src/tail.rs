//! A thread's events as a stream that outlives connections.

use std::{collections::VecDeque, fmt, pin::Pin, sync::Arc, task, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::{
    Client, ClientError, ClientFrame, Decision, EndReason, Retry, Socket,
    backoff::chance,
    follow::{Follow, Step},
};
use threadline_core::Seq;

/// So many heartbeats may fail to appear before a connection is taken for dead.
const MISSED_HEARTBEATS: u32 = 3;

/// Where to begin, and what to follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TailOptions {
    /// The last seq already seen; 0 for all.
    pub after: Seq,
    /// The epoch that `after` belongs to. Without it a cursor of a log that was replaced goes unnoticed.
    pub epoch: Option<String>,
    /// Only this run; the stream ends with it.
    pub run: Option<String>,
}

/// What happens to a followed thread.
#[derive(Debug)]
pub enum TailItem {
    /// Connected; comes again after every reconnect.
    Hello {
        /// The incarnation of the log. To resume in another process, keep it together with the last seq.
        epoch: String,
        /// Seq of the newest event.
        tail: Seq,
    },
    /// The next event. Over the whole life of the stream seqs are dense: none is left out or comes twice.
    Event {
        /// Its position.
        seq: Seq,
        /// The run that appended it.
        run_id: Arc<str>,
        /// When it was committed.
        at: Arc<str>,
        /// The payload's own bytes.
        event: Box<RawValue>,
    },
    /// All there was has been delivered, up to this seq; what follows is live.
    CaughtUp(Seq),
    /// Live no longer: history is read again from this seq on. Nothing is lost.
    FellBehind(Seq),
    /// The connection is gone; another one is made.
    Reconnecting {
        /// The cursor it goes on from.
        after: Seq,
        /// How long it waits first.
        wait: Duration,
        /// Why.
        error: ClientError,
    },
    /// Nothing more will come. The stream ends here.
    Ended {
        /// Why.
        reason: EndReason,
    },
}

impl Client {
    /// Follows a thread from a cursor on: first what is there, then what comes.
    ///
    /// Connects when first polled, and reconnects by itself, waiting as the server asks or with exponential back-off and full
    /// jitter; a wait begins at its shortest again once an event or a heartbeat has arrived. An error is the
    /// last item, and comes only where no reconnect can help: the thread is not there (`thread-not-found`),
    /// its log is another (`log-replaced`, `cursor-ahead`), the key is wrong (`unauthorized`), or the other
    /// side is not a Threadline server.
    ///
    /// Nothing is read ahead but the frame at hand, so a stream that is not polled holds little memory. If it
    /// rests for longer than a minute the server may close the connection; polling goes on from the cursor.
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
        // Fused, because a loop over several streams may ask once more after the end.
        Tail(Box::pin(items.fuse()))
    }
}

/// The stream of [`Client::tail`]. Dropping it closes the connection.
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
            // What arrived before a failure is still delivered before it.
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

    /// Takes in one frame; connects first if need be.
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
                // The server closes connections that never say anything.
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
