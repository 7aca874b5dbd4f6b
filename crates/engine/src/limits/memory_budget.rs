//! Memory budgets of a node that all clients share. Each untrusted client (a principal with a user token or lent
//! access) may hold only a part: a client that keeps its memory blocks itself, and no other client.

use std::{fmt, sync::Arc};

use dashmap::DashMap;
use threadline_core::{Principal, limits::UNTRUSTED_SHARE};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::key::Key;

/// Budget of bytes that may be held at once. Cheap to clone; the clones share the budget.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    size: usize,
    /// Bytes that one untrusted client may hold.
    part: usize,
    free: Arc<Semaphore>,
    /// Only untrusted clients that hold bytes or wait for them.
    untrusted: DashMap<Key, UntrustedClient>,
}

struct UntrustedClient {
    free: Arc<Semaphore>,
    held: usize,
}

/// Budget owner: an untrusted client with its own part, or the node as a whole (the default).
#[derive(Debug, Clone, Default)]
pub struct BudgetOwner(Option<Arc<Key>>);

impl BudgetOwner {
    /// Owner for a principal: an untrusted client (a user token or lent access) gets its own part.
    pub fn of(principal: &Principal) -> Self {
        let user = principal.user.as_ref().filter(|_| principal.is_untrusted());
        Self(user.map(|user| Arc::new(Key::User(principal.project.clone(), user.clone()))))
    }
}

/// The bytes did not become free before the timeout. The number is the limit that was reached, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded(pub usize);

/// Bytes taken from a [`MemoryBudget`]; released when dropped.
#[derive(Debug)]
pub struct BudgetPermit {
    budget: MemoryBudget,
    owner: BudgetOwner,
    /// The untrusted client's part, set when the first bytes are requested.
    part: Option<Arc<Semaphore>>,
    bytes: usize,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("size", &self.0.size).field("free", &self.free()).finish_non_exhaustive()
    }
}

impl MemoryBudget {
    /// Budget of this many bytes. The part of an untrusted client is not smaller than `least`.
    pub fn new(size: usize, least: usize) -> Self {
        let size = size.min(Semaphore::MAX_PERMITS);
        let part = (size / UNTRUSTED_SHARE).max(least).min(size);
        Self(Arc::new(Shared { size, part, free: Arc::new(Semaphore::new(size)), untrusted: DashMap::new() }))
    }

    /// Handle that holds no bytes yet.
    pub fn place(&self, owner: &BudgetOwner) -> BudgetPermit {
        BudgetPermit { budget: self.clone(), owner: owner.clone(), part: None, bytes: 0 }
    }

    /// Bytes that are not held.
    pub fn free(&self) -> usize {
        self.0.free.available_permits()
    }
}

impl BudgetPermit {
    /// Bytes held at this moment, 0 after a release.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that this owner can ever hold.
    pub fn most(&self) -> usize {
        if self.owner.0.is_some() { self.budget.0.part } else { self.budget.0.size }
    }

    /// Takes this many more bytes as soon as they are free. Bytes beyond an untrusted client's part make only that
    /// client wait.
    pub async fn take(&mut self, more: usize, until: Instant) -> Result<(), BudgetExceeded> {
        let (size, most) = (self.budget.0.size, self.most());
        let permits = u32::try_from(more).map_err(|_| BudgetExceeded(most))?;
        let own = match self.part() {
            Some(part) => Some(acquire(part, permits, until).await.ok_or(BudgetExceeded(most))?),
            None => None,
        };
        let all = acquire(self.budget.0.free.clone(), permits, until).await.ok_or(BudgetExceeded(size))?;
        // The bytes count as held from here on; a future dropped earlier releases the permits itself.
        own.into_iter().chain([all]).for_each(OwnedSemaphorePermit::forget);
        self.bytes += more;
        Ok(())
    }

    /// Releases all bytes held; the handle can take again.
    pub fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.budget.0.free.add_permits(bytes);
        if let Some(part) = &self.part {
            part.add_permits(bytes);
        }
    }

    fn part(&mut self) -> Option<Arc<Semaphore>> {
        let key = self.owner.0.as_deref()?;
        let part = self.part.get_or_insert_with(|| {
            let new = || UntrustedClient { free: Arc::new(Semaphore::new(self.budget.0.part)), held: 0 };
            let mut client = self.budget.0.untrusted.entry(key.clone()).or_insert_with(new);
            client.held += 1;
            client.free.clone()
        });
        Some(part.clone())
    }
}

async fn acquire(budget: Arc<Semaphore>, permits: u32, until: Instant) -> Option<OwnedSemaphorePermit> {
    // The semaphore is never closed.
    timeout_at(until, budget.acquire_many_owned(permits)).await.ok()?.ok()
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.release();
        if let (Some(key), Some(_)) = (&self.owner.0, &self.part) {
            let untrusted = &self.budget.0.untrusted;
            if let Some(mut client) = untrusted.get_mut(&**key) {
                client.held -= 1;
            }
            untrusted.remove_if(&**key, |_, client| client.held == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;
    use crate::limits::tests::{client, key};

    #[tokio::test(start_paused = true)]
    async fn an_untrusted_client_has_a_share_and_leaves_nothing_behind() {
        let budget = MemoryBudget::new(UNTRUSTED_SHARE * 100, 0);
        let soon = || Instant::now() + Duration::from_secs(1);
        let ann = BudgetOwner::of(&client("p", "ann"));
        let (mut first, mut second) = (budget.place(&ann), budget.place(&ann));
        assert_eq!(first.take(60, soon()).await, Ok(()));
        assert_eq!(second.take(60, soon()).await, Err(BudgetExceeded(100)));
        // Other owners are not affected.
        let mut others = Vec::new();
        for other in [client("p", "bob"), client("q", "ann"), key("p", Some("ann"))] {
            let mut held = budget.place(&BudgetOwner::of(&other));
            assert_eq!(held.take(100, soon()).await, Ok(()), "{other:?}");
            others.push(held);
        }
        assert_eq!(others[2].most(), UNTRUSTED_SHARE * 100);
        // A waiting owner gets its bytes as soon as they are free, and one that left meanwhile keeps none.
        drop(budget.place(&ann).take(50, soon()));
        let waiting = tokio::spawn(async move { second.take(60, soon()).await.map(|()| second) });
        tokio::task::yield_now().await;
        drop(first);
        let second = waiting.await.expect("no panic").expect("room");
        assert_eq!((second.bytes(), budget.free()), (60, UNTRUSTED_SHARE * 100 - 360));
        drop((second, others));
        assert_eq!((budget.free(), budget.0.untrusted.len()), (UNTRUSTED_SHARE * 100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_taken_by_all_leaves_the_share_of_an_untrusted_client() {
        let budget = MemoryBudget::new(UNTRUSTED_SHARE * 100, 100);
        let mut all = budget.place(&BudgetOwner::default());
        assert_eq!(all.take(UNTRUSTED_SHARE * 100, Instant::now()).await, Ok(()));
        let mut held = budget.place(&BudgetOwner::of(&client("p", "ann")));
        let until = Instant::now() + Duration::from_secs(1);
        assert_eq!(held.take(100, until).await, Err(BudgetExceeded(UNTRUSTED_SHARE * 100)));
        all.release();
        assert_eq!(held.take(100, until).await, Ok(()));
    }
}
