//! Stored data of users and projects: sums of what this node commits, and the check whether a client may store more.
//!
//! A node adds up in memory and writes every [`USAGE_FLUSH`](threadline_core::limits::USAGE_FLUSH), so that an append writes
//! nothing more than its events. The check is a look-up in memory: the sum that was last read, and what this node has not
//! written yet. Other nodes may pass a limit by what they commit meanwhile.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use moka::sync::Cache;
use threadline_core::{
    Principal, ProjectId, Usage, UsageOwner, UserId,
    limits::{QUOTA_IDLE, QUOTA_KEYS, USAGE_CHUNK, USAGE_FRESH, USAGE_HELD},
};
use threadline_store::{DynStore, StoreError, StoreResult};
use tokio::time::Instant;

use super::{free_space::FreeSpace, quota::Quota};
use crate::{
    RoomError,
    after_commit::{AfterCommit, Commit},
};

/// Kind of data that a client is about to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storing {
    /// A thread, and what it will hold.
    Thread,
    /// Events, or other words of a thread.
    Words,
}

/// Sums of one project that are not in the store.
#[derive(Debug, Default)]
struct Held {
    whole: Usage,
    users: HashMap<UserId, Usage>,
}

#[derive(Debug, Default)]
struct Noted {
    waiting: HashMap<ProjectId, Held>,
    /// Sums that are being written.
    writing: HashMap<ProjectId, Held>,
    /// Number of users in `waiting`.
    users: usize,
}

/// Sum in the store, as this node has read it.
#[derive(Debug, Clone, Copy)]
struct Known {
    usage: Usage,
    at: Instant,
}

/// Sums of a node. Clones share them.
#[derive(Clone)]
pub struct StoredBytes(Arc<Shared>);

struct Shared {
    store: DynStore,
    quota: Quota,
    free: FreeSpace,
    noted: Mutex<Noted>,
    /// Bounded: a sum that does not fit is read again.
    known: Cache<UsageOwner, Known>,
    /// Number of writes that have begun or ended: what was read across one may be old.
    writes: AtomicU64,
    /// One write at a time.
    writer: tokio::sync::Mutex<()>,
}

impl Held {
    fn of(&self, user: Option<&UserId>) -> Usage {
        match user {
            Some(user) => self.users.get(user).copied().unwrap_or_default(),
            None => self.whole,
        }
    }

    fn add(&mut self, user: &UserId, usage: Usage) {
        self.whole += usage;
        match self.users.get_mut(user) {
            Some(sum) => *sum += usage,
            None => drop(self.users.insert(user.clone(), usage)),
        }
    }
}

impl Noted {
    fn add(&mut self, project: &ProjectId, user: &UserId, usage: Usage) {
        let known = self.waiting.get(project).is_some_and(|held| held.users.contains_key(user));
        if !known {
            if self.users >= USAGE_HELD {
                return;
            }
            self.users += 1;
        }
        match self.waiting.get_mut(project) {
            Some(held) => held.add(user, usage),
            None => self.waiting.entry(project.clone()).or_default().add(user, usage),
        }
    }

    fn of(&self, owner: &UsageOwner) -> Usage {
        let sums = [&self.waiting, &self.writing].map(|held| held.get(&owner.project));
        sums.into_iter().flatten().fold(Usage::NONE, |sum, held| sum + held.of(owner.user.as_ref()))
    }
}

impl StoredBytes {
    pub(crate) fn new(store: DynStore, quota: Quota, free: FreeSpace) -> Self {
        Self(Arc::new(Shared {
            store,
            quota,
            free,
            noted: Mutex::default(),
            known: Cache::builder().max_capacity(QUOTA_KEYS).time_to_idle(QUOTA_IDLE).build(),
            writes: AtomicU64::new(0),
            writer: tokio::sync::Mutex::default(),
        }))
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was stored for a user.
    pub(crate) fn note(&self, project: &ProjectId, user: &UserId, usage: Usage) {
        self.noted().add(project, user, usage);
    }

    /// Has the sums of a user and the project read anew, after a write that added to them in the store.
    pub(crate) fn forget(&self, project: &ProjectId, user: &UserId) {
        for user in [Some(user.clone()), None] {
            self.0.known.invalidate(&UsageOwner { project: project.clone(), user });
        }
    }

    /// Free bytes of the file system with the data; `None` if it is not this node's.
    pub(crate) fn free(&self) -> Option<u64> {
        self.0.free.bytes()
    }

    /// Refuses what a principal is about to store if its user or its project has stored the most that is allowed, or if the
    /// file system is nearly full.
    pub(crate) async fn admit(&self, principal: &Principal, storing: Storing) -> Result<(), RoomError> {
        let Shared { quota, free, .. } = &*self.0;
        if let Some(least) = free.missing(principal.is_untrusted()) {
            return Err(quota.refuse(threadline_core::Limit::StorageFree, least, Duration::ZERO).into());
        }
        for quotas in quota.stored(principal) {
            let usage = self.held(&quotas.owner).await?;
            let threads = if storing == Storing::Thread { quotas.threads } else { None };
            for (most, stored) in [(quotas.bytes, usage.stored_bytes()), (threads, usage.stored_threads())] {
                if let Some((limit, most)) = most.filter(|(_, most)| stored >= *most) {
                    return Err(quota.refuse(limit, most, Duration::ZERO).into());
                }
            }
        }
        Ok(())
    }

    /// Usage of an owner, as far as this node knows.
    pub async fn held(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        let known = self.known(owner).await?;
        Ok(known + self.noted().of(owner))
    }

    async fn known(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        let Shared { known, store, writes, .. } = &*self.0;
        let before = known.get(owner);
        if let Some(old) = before {
            if old.at.elapsed() < USAGE_FRESH {
                return Ok(old.usage);
            }
            // One request reads it again; the others go on with what is known.
            known.insert(owner.clone(), Known { at: Instant::now(), ..old });
        }
        let begun = writes.load(Ordering::Acquire);
        let usage = match (store.usage(owner).await, before) {
            (Ok(Some(usage)), _) => usage,
            (Ok(None), _) => self.begin(owner).await?,
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "cannot read how much is stored; the last sum counts");
                return Ok(old.usage);
            }
            (Err(error), None) => return Err(error),
        };
        if writes.load(Ordering::Acquire) == begun {
            known.insert(owner.clone(), Known { usage, at: Instant::now() });
        }
        Ok(usage)
    }

    /// Puts a sum for a user who has none but has threads: it is counted soon.
    async fn begin(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        let Some(user) = &owner.user else { return Ok(Usage::NONE) };
        let changed = self.0.store.add_usage(&[(owner.project.clone(), user.clone(), Usage::NONE)]).await?;
        Ok(changed.into_iter().find(|(other, _)| other == owner).map_or(Usage::NONE, |(_, usage)| usage))
    }

    /// Writes what was noted. What was not written is noted again: if the store did take it, it counts twice until the next
    /// count.
    pub async fn flush(&self) -> StoreResult<()> {
        let Shared { store, writer, writes, .. } = &*self.0;
        let _alone = writer.lock().await;
        let mut sums = {
            let mut noted = self.noted();
            noted.users = 0;
            noted.writing = mem::take(&mut noted.waiting);
            let users = noted.writing.iter().flat_map(|(project, held)| held.users.iter().map(move |of| (project, of)));
            users.map(|(project, (user, usage))| (project.clone(), user.clone(), *usage)).collect::<Vec<_>>()
        };
        writes.fetch_add(1, Ordering::AcqRel);
        sums.retain(|(_, _, usage)| *usage != Usage::NONE);
        // Nodes lock the rows in the same order.
        sums.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        let mut written = Ok(());
        let mut rest = sums.as_slice();
        while !rest.is_empty() && written.is_ok() {
            let (chunk, later) = rest.split_at(rest.len().min(USAGE_CHUNK));
            match store.add_usage(chunk).await {
                Ok(changed) => {
                    self.written(chunk, &changed);
                    rest = later;
                }
                Err(error) => written = Err(error),
            }
        }
        let mut noted = self.noted();
        noted.writing.clear();
        rest.iter().for_each(|(project, user, usage)| noted.add(project, user, *usage));
        drop(noted);
        writes.fetch_add(1, Ordering::AcqRel);
        written
    }

    /// Takes sums that are in the store now from those that are being written.
    fn written(&self, chunk: &[(ProjectId, UserId, Usage)], changed: &[(UsageOwner, Usage)]) {
        let mut noted = self.noted();
        for (project, user, usage) in chunk {
            if let Some(held) = noted.writing.get_mut(project) {
                held.add(user, -*usage);
            }
        }
        for (owner, usage) in changed.iter().filter(|(owner, _)| self.0.known.contains_key(owner)) {
            self.0.known.insert(owner.clone(), Known { usage: *usage, at: Instant::now() });
        }
    }

    /// Counts the sum of an owner anew.
    pub(crate) async fn count(&self, owner: &UsageOwner) -> Result<(), StoreError> {
        let usage = self.0.store.count_usage(owner).await?;
        if self.0.known.contains_key(owner) {
            self.0.known.insert(owner.clone(), Known { usage, at: Instant::now() });
        }
        Ok(())
    }
}

impl AfterCommit for StoredBytes {
    fn committed(&self, commit: &Commit<'_>) {
        let bytes = i64::try_from(commit.slice.bytes()).unwrap_or(i64::MAX);
        if bytes > 0 {
            self.note(&commit.thread.project, &commit.thread.user, Usage { bytes, threads: 0 });
        }
    }
}
