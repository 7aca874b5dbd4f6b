//! Agent data: what frameworks keep beside the logs of threads.

use std::sync::Arc;

use threadline_core::{Principal, Usage, UserId, limits::AGENT_DATA_ANSWER_BYTES};
use threadline_store::{DynStore, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    DrainingError, RoomError,
    directory::Directory,
    lifecycle::Lifecycle,
    limits::{FairQueue, StoredBytes, Storing},
    metrics::Metrics,
};

pub mod api_records;
pub mod checkpoints;
pub mod entry_writes;
pub mod items;
pub mod kv;

/// Rounds of an operation that meets what other clients delete, replace or create again meanwhile.
const ROUNDS: usize = 4;

/// Dependencies of agent data, shared by its use cases.
pub(crate) struct AgentDataDeps {
    pub store: DynStore,
    pub directory: Directory,
    pub queue: FairQueue,
    pub stored: StoredBytes,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
    /// Writes under way: as many as there are group commits, so that a commit of the log waits for at most one of them.
    writes: Semaphore,
}

impl AgentDataDeps {
    pub(crate) fn new(
        store: DynStore,
        directory: Directory,
        queue: FairQueue,
        stored: StoredBytes,
        metrics: Metrics,
        lifecycle: Lifecycle,
    ) -> Arc<Self> {
        let writes = Semaphore::new(store.pipelines().max(1));
        Arc::new(Self { store, directory, queue, stored, metrics, lifecycle, writes })
    }

    /// Refuses a principal that may store nothing more.
    pub(super) async fn admit(&self, principal: &Principal) -> Result<(), RoomError> {
        self.stored.admit(principal, Storing::Words).await
    }

    pub(super) fn refuse_if_draining(&self) -> Result<(), DrainingError> {
        self.lifecycle.refuse_if_draining()
    }

    /// The turn of a write.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.writes.acquire().await.map_err(|_| StoreError::Unavailable("the node has stopped".to_owned()))
    }

    /// Notes bytes that a user has stored. What a project has stored itself is counted once a day.
    pub(super) fn note(&self, principal: &Principal, user: Option<&UserId>, bytes: i64) {
        if let Some(user) = user.filter(|_| bytes != 0) {
            self.stored.note(&principal.project, user, Usage { bytes, threads: 0 });
        }
    }
}

/// Bytes of values that an answer may still hold.
struct AnswerRoom(usize);

impl AnswerRoom {
    fn new() -> Self {
        Self(AGENT_DATA_ANSWER_BYTES)
    }

    fn left(&self) -> usize {
        self.0
    }

    fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}
