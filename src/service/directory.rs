//! Finds threads and checks that the principal may touch them.

use std::sync::Arc;

use moka::sync::Cache;

use super::ServiceError;
use crate::{
    domain::{Epoch, Fence, Principal, ProjectId, RunId, Thread, ThreadId, ThreadKey, UserId},
    store::{DynStore, StoreError},
};

/// Threads and runs whose unchanging facts are remembered. A miss costs one read.
const REMEMBERED: u64 = 100_000;

/// The facts of a thread that never change while it exists.
#[derive(Debug)]
pub struct ThreadRef {
    /// The store's number of this incarnation.
    pub key: ThreadKey,
    /// The incarnation of its log.
    pub epoch: Epoch,
    /// Its tenant.
    pub project: ProjectId,
    /// Its owner.
    pub user: UserId,
    /// Its id.
    pub id: ThreadId,
}

impl From<&Thread> for ThreadRef {
    fn from(thread: &Thread) -> Self {
        Self {
            key: thread.key,
            epoch: thread.epoch,
            project: thread.project.clone(),
            user: thread.user.clone(),
            id: thread.id.clone(),
        }
    }
}

/// Finds threads by id, for those who may. Remembers only what never changes: whether a thread still exists is the
/// store's word each time, and what it says is gone is to be [forgotten](Directory::forget).
#[derive(Clone)]
pub struct Directory {
    store: DynStore,
    threads: Cache<(ProjectId, ThreadId), Arc<ThreadRef>>,
    runs: Cache<(ThreadKey, RunId), Fence>,
}

impl Directory {
    /// An empty memory over this store.
    pub fn new(store: DynStore) -> Self {
        Self { store, threads: Cache::new(REMEMBERED), runs: Cache::new(REMEMBERED) }
    }

    /// The thread, if it exists and the principal may touch it.
    pub async fn find(&self, principal: &Principal, id: &ThreadId) -> Result<Arc<ThreadRef>, ServiceError> {
        let key = (principal.project.clone(), id.clone());
        let thread = match self.threads.get(&key) {
            Some(thread) => thread,
            None => {
                let found = self.store.thread(&principal.project, id).await?.ok_or(ServiceError::ThreadNotFound)?;
                let thread = Arc::new(ThreadRef::from(&found));
                self.threads.insert(key, thread.clone());
                thread
            }
        };
        if principal.may_access(&thread.project, &thread.user) { Ok(thread) } else { Err(ServiceError::ThreadNotFound) }
    }

    /// The store says that this incarnation is gone.
    pub fn forget(&self, thread: &ThreadRef) {
        self.threads.invalidate(&(thread.project.clone(), thread.id.clone()));
    }

    /// Does something with a thread; `work` answers `None` if the store says that it is gone. Then the memory may
    /// have been old, and the thread that is there now, if any, gets one more try.
    pub async fn with<T>(
        &self,
        principal: &Principal,
        id: &ThreadId,
        mut work: impl AsyncFnMut(Arc<ThreadRef>) -> Result<Option<T>, ServiceError>,
    ) -> Result<T, ServiceError> {
        for _ in 0..2 {
            let thread = self.find(principal, id).await?;
            if let Some(done) = work(thread.clone()).await? {
                return Ok(done);
            }
            self.forget(&thread);
        }
        Err(ServiceError::ThreadNotFound)
    }

    /// The fence of a run; `None` if the thread has no such run (or is gone).
    pub async fn fence(&self, key: ThreadKey, run: &RunId) -> Result<Option<Fence>, StoreError> {
        if let Some(fence) = self.runs.get(&(key, run.clone())) {
            return Ok(Some(fence));
        }
        let found = self.store.run(key, run).await?.map(|run| run.fence);
        if let Some(fence) = found {
            self.runs.insert((key, run.clone()), fence);
        }
        Ok(found)
    }
}
