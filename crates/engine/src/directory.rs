//! Finds threads and checks that the principal may access them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use moka::sync::Cache;
use threadline_core::{Epoch, Judgement, Principal, ProjectId, RunId, Thread, ThreadId, ThreadKey, UserId};
use threadline_store::{DynStore, Head, Named, StoreError};

use crate::{
    LookupError,
    after_commit::{AfterCommit, Commit},
    records::{ListCursor, RunFacts, ThreadRef},
    subscription::ReplacedLog,
};

/// Most threads and most runs whose constant facts are cached. A miss costs one read.
const REMEMBERED: u64 = 100_000;

/// Lookups of a thread by one operation: in the cache, and in the store once the cached incarnation is gone.
const LOOKUPS: usize = 2;

/// Result of an operation on one incarnation of a thread.
pub enum Attempt<T> {
    Done(T),
    /// The incarnation was deleted; the operation had no effect.
    ThreadGone,
}

impl<T> From<Option<T>> for Attempt<T> {
    /// `None` is the answer of a store that has no such thread.
    fn from(answer: Option<T>) -> Self {
        answer.map_or(Self::ThreadGone, Self::Done)
    }
}

/// Reads the thread that an id names for a principal: with a user, that user's; for a whole project, the one that has claimed
/// the id, else the only one.
pub(crate) async fn read(store: &DynStore, principal: &Principal, id: &ThreadId) -> Result<Thread, LookupError> {
    match &principal.user {
        Some(user) => store.thread_of(&principal.project, user, id).await?.ok_or(LookupError::ThreadNotFound),
        None => match store.thread_named(&principal.project, id).await? {
            Named::Absent => Err(LookupError::ThreadNotFound),
            Named::Thread(thread) => Ok(*thread),
            Named::Ambiguous => Err(LookupError::ThreadAmbiguous),
        },
    }
}

/// Id of a thread as a principal names it: within a user's threads, or within those of a whole project.
type Name = (ProjectId, Option<UserId>, ThreadId);

/// Finds threads by id for authorized principals. Caches only facts that never change: the store decides each time if a
/// thread still exists, and a thread that it reports as deleted must be [forgotten](Directory::forget).
#[derive(Clone)]
pub struct Directory {
    store: DynStore,
    threads: Cache<Name, Arc<ThreadRef>>,
    runs: Cache<(ThreadKey, RunId), RunFacts>,
    forgotten: Arc<AtomicU64>,
}

impl Directory {
    /// Empty cache over this store.
    pub fn new(store: DynStore) -> Self {
        Self { store, threads: Cache::new(REMEMBERED), runs: Cache::new(REMEMBERED), forgotten: Arc::default() }
    }

    /// The thread, if it exists and the principal may access it.
    pub async fn find(&self, principal: &Principal, id: &ThreadId) -> Result<Arc<ThreadRef>, LookupError> {
        let name = (principal.project.clone(), principal.user.clone(), id.clone());
        if let Some(thread) = self.threads.get(&name) {
            return Ok(thread);
        }
        match read(&self.store, principal, id).await {
            Ok(found) => Ok(self.remember(&found, principal.user.as_ref())),
            Err(error) => {
                if matches!(error, LookupError::ThreadNotFound) {
                    self.invalidate(&name);
                }
                Err(error)
            }
        }
    }

    /// Caches a thread that was just read for a user, or for a whole project, so that the next lookup needs no read. The
    /// name of an unclaimed thread is not cached without its user: another thread may get, or claim, the same id.
    pub fn remember(&self, found: &Thread, user: Option<&UserId>) -> Arc<ThreadRef> {
        let thread = Arc::new(ThreadRef::from(found));
        if user.is_some() || found.claimed {
            self.threads.insert((found.project.clone(), user.cloned(), found.id.clone()), thread.clone());
        }
        thread
    }

    /// Removes a thread whose incarnation was deleted.
    pub fn forget(&self, thread: &ThreadRef) {
        let name = (thread.project.clone(), Some(thread.user.clone()), thread.id.clone());
        self.threads.invalidate(&name);
        self.invalidate(&(name.0, None, name.2));
    }

    /// Counter of removals: while it stays the same, an earlier lookup is still valid.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Forgets everything: the store may have lost what the facts come from.
    pub fn clear(&self) {
        self.threads.invalidate_all();
        self.runs.invalidate_all();
        self.forgotten.fetch_add(1, Ordering::AcqRel);
    }

    fn invalidate(&self, name: &Name) {
        self.threads.invalidate(name);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs an operation on a thread. If it finds that the cached incarnation was deleted, it runs once more on the
    /// thread that has the id now, if there is one.
    pub async fn with_thread<T, E, F>(
        &self,
        principal: &Principal,
        id: &ThreadId,
        operation: impl Fn(Arc<ThreadRef>) -> F,
    ) -> Result<T, E>
    where
        E: From<LookupError>,
        // No `AsyncFn`: the compiler does not see yet that futures of these are `Send` for every lifetime.
        F: Future<Output = Result<Attempt<T>, E>>,
    {
        for _ in 0..LOOKUPS {
            let thread = self.find(principal, id).await?;
            match operation(thread.clone()).await? {
                Attempt::Done(done) => return Ok(done),
                Attempt::ThreadGone => self.forget(&thread),
            }
        }
        Err(LookupError::ThreadNotFound.into())
    }

    /// True if the store still has this incarnation of a thread.
    pub async fn exists(&self, key: ThreadKey) -> Result<bool, StoreError> {
        Ok(!self.store.heads(&[key]).await?.is_empty())
    }

    /// Refuses a write that requires another epoch than the log has. `None` if this incarnation of the thread is gone.
    pub async fn head_at<E>(&self, key: ThreadKey, required: Option<Epoch>) -> Result<Option<Head>, E>
    where
        E: From<StoreError> + From<ReplacedLog>,
    {
        let head = self.store.heads(&[key]).await?.pop();
        head.iter().try_for_each(|head| ReplacedLog::refuse(required, head))?;
        Ok(head)
    }

    /// [`Directory::head_at`] for a write to the thread and not to its log: the previous epoch is accepted too.
    pub async fn refuse_other_thread<E>(&self, key: ThreadKey, required: Option<Epoch>) -> Result<(), E>
    where
        E: From<StoreError> + From<ReplacedLog>,
    {
        let Some(epoch) = required else { return Ok(()) };
        let Some(head) = self.store.heads(&[key]).await?.pop() else { return Ok(()) };
        match head.prior {
            Some(prior) if prior.epoch == epoch => Ok(()),
            _ => Ok(ReplacedLog::refuse(required, &head)?),
        }
    }

    /// Judges a cursor of a list that is stored beside the log of a thread, as cursors of the log are judged. Returns the
    /// position before the first item. What the log has lost does not say what such a list has lost, so a cursor of an
    /// earlier generation is refused too, if it names one.
    pub async fn judge<E>(&self, thread: &ThreadRef, cursor: Option<ListCursor>) -> Result<Attempt<ListCursor>, E>
    where
        E: From<StoreError> + From<ReplacedLog>,
    {
        let current = self.store.lineage().generation();
        let mut epoch = thread.epoch;
        if let Some(cursor) = cursor {
            let Some(head) = self.store.heads(&[thread.key]).await?.pop() else { return Ok(Attempt::ThreadGone) };
            let judgement = head.history().judge(head.tail, Some(cursor.epoch), 0, current);
            let continues = matches!(judgement, Judgement::Continues | Judgement::Rebased);
            if !continues || cursor.generation.is_some_and(|generation| generation != current) {
                return Err(ReplacedLog { epoch: Some(head.epoch), tail: head.tail, common_up_to: None }.into());
            }
            epoch = head.epoch;
        }
        Ok(Attempt::Done(ListCursor { epoch, generation: Some(current), number: 0 }))
    }

    /// Facts of a run; `None` if the thread has no such run (or was deleted).
    pub async fn run(&self, key: ThreadKey, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        if let Some(facts) = self.runs.get(&(key, run.clone())) {
            return Ok(Some(facts));
        }
        let found = self.store.run(key, run).await?.map(|run| RunFacts::from(&run));
        if let Some(facts) = &found {
            self.runs.insert((key, run.clone()), facts.clone());
        }
        Ok(found)
    }
}

impl AfterCommit for Directory {
    /// Forgets a thread whose log got another epoch.
    fn committed(&self, commit: &Commit<'_>) {
        if commit.head.epoch != commit.thread.epoch {
            self.forget(commit.thread);
        }
    }

    fn deleted(&self, thread: &ThreadRef) {
        self.forget(thread);
    }
}
