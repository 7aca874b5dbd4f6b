//! Finds threads and checks that the principal may touch them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use moka::sync::Cache;

use super::ServiceError;
use crate::{
    domain::{Epoch, Fence, Principal, ProjectId, Run, RunId, Thread, ThreadId, ThreadKey, UserId},
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

/// The facts of a run that never change.
#[derive(Debug, Clone, Copy)]
pub struct RunFacts {
    /// Its fence.
    pub fence: Fence,
    /// Whether the server drives it.
    pub driven: bool,
}

impl From<&Run> for RunFacts {
    fn from(run: &Run) -> Self {
        Self { fence: run.fence, driven: run.driven }
    }
}

/// Finds threads by id, for those who may. Remembers only what never changes: whether a thread still exists is the
/// store's word each time, and what it says is gone is to be [forgotten](Directory::forget).
#[derive(Clone)]
pub struct Directory {
    store: DynStore,
    threads: Cache<(ProjectId, ThreadId), Arc<ThreadRef>>,
    runs: Cache<(ThreadKey, RunId), RunFacts>,
    forgotten: Arc<AtomicU64>,
}

impl Directory {
    /// An empty memory over this store.
    pub fn new(store: DynStore) -> Self {
        Self { store, threads: Cache::new(REMEMBERED), runs: Cache::new(REMEMBERED), forgotten: Arc::default() }
    }

    /// The thread, if it exists and the principal may touch it.
    pub async fn find(&self, principal: &Principal, id: &ThreadId) -> Result<Arc<ThreadRef>, ServiceError> {
        let key = (principal.project.clone(), id.clone());
        let may = |thread: &ThreadRef| principal.may_access(&thread.project, &thread.user);
        // Only a yes is taken from memory: the id may have got another owner since, by another node.
        if let Some(thread) = self.threads.get(&key).filter(|thread| may(thread)) {
            return Ok(thread);
        }
        let Some(found) = self.store.thread(&principal.project, id).await? else {
            self.invalidate(&key);
            return Err(ServiceError::ThreadNotFound);
        };
        let thread = self.remember(&found);
        if may(&thread) { Ok(thread) } else { Err(ServiceError::ThreadNotFound) }
    }

    /// A thread that the store has just shown: whoever asks for it next need not ask the store.
    pub fn remember(&self, found: &Thread) -> Arc<ThreadRef> {
        let thread = Arc::new(ThreadRef::from(found));
        self.threads.insert((found.project.clone(), found.id.clone()), thread.clone());
        thread
    }

    /// The store says that this incarnation is gone.
    pub fn forget(&self, thread: &ThreadRef) {
        self.invalidate(&(thread.project.clone(), thread.id.clone()));
    }

    /// Counts what was forgotten: while this stays the same, what was found is what would be found again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    fn invalidate(&self, key: &(ProjectId, ThreadId)) {
        self.threads.invalidate(key);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
    }

    /// To look for a thread again where the store says that the one remembered is gone.
    pub fn lookup<'a>(&'a self, principal: &'a Principal, id: &'a ThreadId) -> Lookup<'a> {
        Lookup { directory: self, principal, id, found: None, tries: 0 }
    }

    /// The facts of a run; `None` if the thread has no such run (or is gone).
    pub async fn run(&self, key: ThreadKey, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        if let Some(facts) = self.runs.get(&(key, run.clone())) {
            return Ok(Some(facts));
        }
        let found = self.store.run(key, run).await?.map(|run| RunFacts::from(&run));
        if let Some(facts) = found {
            self.runs.insert((key, run.clone()), facts);
        }
        Ok(found)
    }
}

/// A thread looked for with a memory that may be old.
pub struct Lookup<'a> {
    directory: &'a Directory,
    principal: &'a Principal,
    id: &'a ThreadId,
    found: Option<Arc<ThreadRef>>,
    tries: u32,
}

impl Lookup<'_> {
    /// The thread. Called again, the one given before was gone: then the thread that is there now, if any, once.
    pub async fn next(&mut self) -> Result<Arc<ThreadRef>, ServiceError> {
        if let Some(gone) = self.found.take() {
            self.directory.forget(&gone);
        }
        self.tries += 1;
        if self.tries > 2 {
            return Err(ServiceError::ThreadNotFound);
        }
        let thread = self.directory.find(self.principal, self.id).await?;
        self.found = Some(thread.clone());
        Ok(thread)
    }
}
