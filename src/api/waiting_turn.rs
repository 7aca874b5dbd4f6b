//! Stream of a client whose request waits in the queue: silent until the run begins, then the events of the run.

use threadline_core::{Principal, RunId, ThreadId};
use threadline_engine::{
    QueueError, ReadError, Service, StoreError,
    subscription::{FollowMethod, Subscription},
};

/// Turn that waits, and the client that follows it.
pub struct WaitingTurn {
    pub service: Service,
    pub principal: Principal,
    pub thread: ThreadId,
    pub run: RunId,
    /// Transport of the events, for which the client is counted.
    pub via: FollowMethod,
    /// Subscription of the whole thread, of which only the changes are watched.
    pub changes: Subscription,
}

impl WaitingTurn {
    /// Watches a turn that waits.
    pub async fn watch(
        service: Service,
        principal: Principal,
        thread: ThreadId,
        run: RunId,
        via: FollowMethod,
    ) -> Result<Self, ReadError> {
        let changes = service.events.subscribe(&principal, &thread, 0, None, None, via).await?;
        Ok(Self { service, principal, thread, run, via, changes })
    }

    /// Waits until the run has begun. `None`: the turn was cancelled or dropped, or its thread is gone.
    pub async fn begun(&mut self) -> Result<Option<Subscription>, StoreError> {
        let mut watch = self.changes.watch();
        loop {
            // Marked as seen before the reads: a change during them wakes the loop again.
            watch.borrow_and_update();
            match self.follow().await {
                Ok(run) => return Ok(Some(run)),
                Err(ReadError::RunNotFound) => {}
                Err(error) => return cut(error),
            }
            match self.service.runs.queued_turn(&self.principal, &self.thread, &self.run).await {
                Ok(Some(_)) => {}
                // The turn may have begun between the two reads.
                Ok(None) => {
                    return match self.follow().await {
                        Ok(run) => Ok(Some(run)),
                        Err(ReadError::RunNotFound) => Ok(None),
                        Err(error) => cut(error),
                    };
                }
                Err(QueueError::ThreadNotFound) => return Ok(None),
                Err(error) => return Err(StoreError::Unavailable(error.to_string())),
            }
            if watch.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn follow(&self) -> Result<Subscription, ReadError> {
        self.service.events.subscribe(&self.principal, &self.thread, 0, None, Some(&self.run), self.via).await
    }
}

/// The end of a wait that does not end the turn: the client asks again. A turn is gone with its thread.
fn cut(error: ReadError) -> Result<Option<Subscription>, StoreError> {
    match error {
        ReadError::ThreadNotFound => Ok(None),
        ReadError::Store(error) => Err(error),
        error => Err(StoreError::Unavailable(error.to_string())),
    }
}
