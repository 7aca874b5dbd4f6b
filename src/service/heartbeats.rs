//! Heartbeats of all runs of this node, batched: what arrives while one statement is under way shares the next.

use tokio::sync::{mpsc, oneshot};

use super::{ServiceError, context::Context};
use crate::{
    domain::limits::{COMMIT_MAX_REQUESTS, COMMIT_QUEUE},
    store::{ActiveHead, Beat, StoreError},
};

type Answer = Result<Option<ActiveHead>, StoreError>;

/// A heartbeat on its way.
pub(super) struct Request(Beat, oneshot::Sender<Answer>);

/// Where heartbeats are handed in.
#[derive(Debug, Clone)]
pub(super) struct Heartbeats {
    requests: mpsc::Sender<Request>,
}

impl Heartbeats {
    pub fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(COMMIT_QUEUE);
        (Self { requests }, receiver)
    }

    /// Extends a run's lease; `None` if it is not active (any more).
    pub async fn beat(&self, beat: Beat) -> Result<Option<ActiveHead>, ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request(beat, reply)).await.map_err(|_| ServiceError::Draining)?;
        Ok(answer.await.map_err(|_| ServiceError::Draining)??)
    }
}

/// The loop behind the hand-in.
pub(super) async fn run(context: Context, mut requests: mpsc::Receiver<Request>) {
    let mut waiting = Vec::new();
    loop {
        tokio::select! {
            count = requests.recv_many(&mut waiting, COMMIT_MAX_REQUESTS) => if count == 0 { return },
            () = context.stopped() => return,
        }
        let beats: Vec<Beat> = waiting.iter().map(|request| request.0).collect();
        let answers = context.store.heartbeat(&beats).await;
        for (index, Request(_, reply)) in waiting.drain(..).enumerate() {
            let answer = match &answers {
                Ok(answers) => Ok(answers.get(index).cloned().flatten()),
                Err(error) => Err(error.clone()),
            };
            // A receiver that went away wants no answer.
            let _ = reply.send(answer);
        }
    }
}
