//! The life of a node: running, leaving, draining, stopping, failed; and the tasks that end before it does.

use std::time::Duration;

use tokio::time::{self, Interval, MissedTickBehavior};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{DrainingError, close_schedule::CloseSchedule};

/// The states that a node passes through, each cancelled once and never taken back, and its background tasks. Clones
/// share them.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    /// The node is about to shut down: not ready any more, and still serving all requests.
    pub leaving: CancellationToken,
    /// Turns in which sockets and streams are closed, after the node is leaving and before it is draining.
    pub closing: CloseSchedule,
    /// The node is shutting down: long answers end, and no work begins.
    pub draining: CancellationToken,
    /// Background work must end.
    pub stopping: CancellationToken,
    /// A task without which the node cannot continue has failed.
    pub failed: CancellationToken,
    tasks: TaskTracker,
}

impl Default for Lifecycle {
    fn default() -> Self {
        let draining = CancellationToken::new();
        let (leaving, stopping, failed) = Default::default();
        let closing = CloseSchedule::new(draining.clone());
        Self { leaving, closing, draining, stopping, failed, tasks: TaskTracker::new() }
    }
}

impl Lifecycle {
    /// Runs one of the loops without which a node cannot work. A panic in it ends the node: a new process is better
    /// than one that continues without the loop.
    pub fn supervise(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let failed = self.failed.clone();
        self.tasks.spawn(async move {
            if let Err(error) = tokio::spawn(work).await {
                tracing::error!(name, %error, "a background task failed: the server is shutting down");
                failed.cancel();
            }
        });
    }

    /// Runs a task that must end before the node does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Refuses new work while the node is shutting down.
    pub fn refuse_if_draining(&self) -> Result<(), DrainingError> {
        if self.draining.is_cancelled() { Err(DrainingError::Draining) } else { Ok(()) }
    }

    /// Ticks of a loop of background work: the first at once, the next ones this long after the one before at the earliest.
    pub fn every(&self, period: Duration) -> Ticks {
        let mut interval = time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks { interval, stopping: self.stopping.clone() }
    }

    /// Completes when background work must end.
    pub async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    /// Completes when all background tasks have ended. New ones may still be spawned by those.
    pub async fn join(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Ticks until background work must end.
pub(crate) struct Ticks {
    interval: Interval,
    stopping: CancellationToken,
}

impl Ticks {
    /// Waits for the next tick; false once background work must end.
    pub async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interval.tick() => true,
            () = self.stopping.cancelled() => false,
        }
    }
}
