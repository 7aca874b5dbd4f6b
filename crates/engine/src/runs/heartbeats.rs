//! Heartbeats of all runs of this node, batched: all that arrive while one statement runs share the next.

use std::sync::Arc;

use threadline_core::limits::{COMMIT_MAX_REQUESTS, COMMIT_QUEUE};
use threadline_store::{ActiveHead, HeartbeatRequest, RunStore, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::{HeartbeatError, lifecycle::Lifecycle};

type Answer = Result<Option<ActiveHead>, StoreError>;

/// Heartbeat with the channel for its answer.
pub(crate) struct Request(HeartbeatRequest, oneshot::Sender<Answer>);

/// Queue of the heartbeats of all runs of this node.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeats {
    requests: mpsc::Sender<Request>,
}

impl Heartbeats {
    pub fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { requests }, receiver)
    }

    /// Extends a run's lease; `None` if the run is not active (any more).
    pub async fn beat(&self, beat: HeartbeatRequest) -> Result<Option<ActiveHead>, HeartbeatError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request(beat, reply)).await.map_err(|_| HeartbeatError::Draining)?;
        Ok(answer.await.map_err(|_| HeartbeatError::Draining)??)
    }
}

/// Loop that sends queued heartbeats to the store.
pub(crate) async fn run(store: Arc<dyn RunStore>, lifecycle: Lifecycle, mut requests: mpsc::Receiver<Request>) {
    let mut waiting = Vec::new();
    loop {
        tokio::select! {
            count = requests.recv_many(&mut waiting, COMMIT_MAX_REQUESTS) => if count == 0 { return },
            () = lifecycle.stopped() => return,
        }
        let beats: Vec<HeartbeatRequest> = waiting.iter().map(|request| request.0).collect();
        let answers = store.heartbeat(&beats).await;
        for (index, Request(_, reply)) in waiting.drain(..).enumerate() {
            let answer = match &answers {
                Ok(answers) => Ok(answers.get(index).cloned().flatten()),
                Err(error) => Err(error.clone()),
            };
            // A receiver that was dropped needs no answer.
            let _ = reply.send(answer);
        }
    }
}
