//! Waiting for the end of the run that holds a thread.

use threadline_core::{Fence, ThreadKey, limits::RECHECK_INTERVAL};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use crate::subscription::{Hub, TopicRef, TopicState};

/// Watch on a thread until it is free for another run. Changes between two calls are not lost.
pub(crate) struct ThreadWatch {
    /// Keeps the topic, and with it the hints of other nodes.
    _topic: TopicRef,
    changes: watch::Receiver<TopicState>,
}

impl ThreadWatch {
    /// Starts to watch. The caller must read the thread after this call, or it may miss a change.
    pub fn new(hub: &Hub, key: ThreadKey) -> Self {
        let topic = hub.join(key);
        let changes = topic.watch();
        Self { _topic: topic, changes }
    }

    /// Waits until the run with this fence has ended, at most for [`RECHECK_INTERVAL`]: the release of a lock and the end
    /// of a lease wake no waiter, so the caller looks again each time. False once the deadline has passed.
    pub async fn until_free(&mut self, fence: Fence, deadline: Instant) -> bool {
        let look = deadline.min(Instant::now() + RECHECK_INTERVAL);
        let ended = self.changes.wait_for(|state| state.has_ended(fence));
        time::timeout_at(look, ended).await.is_ok() || Instant::now() < deadline
    }
}
