//! Bytes taken from a memory budget.

use threadline_core::{
    Limit,
    limits::{MAX_BATCH_BYTES, PROJECT_MEMORY_SHARE},
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    budget::MemoryBudget,
    owner::{BudgetOwner, MemoryKind},
};

/// The bytes did not become free before the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded {
    /// Limit that was reached.
    pub limit: Limit,
    /// Value of the limit, in bytes.
    pub value: usize,
}

/// Bytes taken from a [`MemoryBudget`]; released when dropped.
#[derive(Debug)]
pub struct BudgetPermit {
    budget: MemoryBudget,
    kind: MemoryKind,
    owner: BudgetOwner,
    bytes: usize,
}

impl MemoryBudget {
    /// Handle that holds no bytes yet.
    pub fn place(&self, kind: MemoryKind, owner: &BudgetOwner) -> BudgetPermit {
        BudgetPermit { budget: self.clone(), kind, owner: owner.clone(), bytes: 0 }
    }
}

impl BudgetPermit {
    /// Bytes held at this moment, 0 after a release.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that this owner can ever hold, alone.
    pub fn most(&self) -> usize {
        let size = self.budget.size();
        match self.owner.client() {
            None => size,
            Some(_) if self.owner.is_untrusted() => size / 2,
            Some(_) => size / (PROJECT_MEMORY_SHARE + 1) * PROJECT_MEMORY_SHARE,
        }
    }

    /// Most bytes that a single piece of work takes of this owner's memory: what would take more takes this much, and is
    /// then its owner's only large work. The bodies of the request and of another one still fit beside it.
    pub fn most_at_once(&self) -> usize {
        let most = self.most();
        most.saturating_sub(2 * MAX_BATCH_BYTES).max(most / 4 * 3)
    }

    /// Moves all bytes into a permit of their own.
    pub fn take_over(&mut self) -> Self {
        let empty = self.budget.place(self.kind, &self.owner);
        std::mem::replace(self, empty)
    }

    /// Takes this many more bytes as soon as the owner's share allows it.
    pub async fn take(&mut self, more: usize, until: Instant) -> Result<(), BudgetExceeded> {
        let place = self.place_for(more, true);
        if let Some((number, mut granted)) = place {
            let mut waiting = Waiting { permit: self, number: Some(number), more };
            if timeout_at(until, &mut granted).await.is_err() {
                drop(waiting);
                return Err(self.exceeded());
            }
            waiting.number = None;
        }
        self.bytes += more;
        Ok(())
    }

    /// Takes this many more bytes if the owner's share allows it now.
    pub fn take_now(&mut self, more: usize) -> Result<(), BudgetExceeded> {
        if self.place_for(more, false).is_some() {
            return Err(self.exceeded());
        }
        self.bytes += more;
        Ok(())
    }

    /// Takes bytes from the pool. If they are not free: the place among those that wait, which is left at once unless this one
    /// waits.
    fn place_for(&self, more: usize, waits: bool) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut pool = self.budget.pool();
        let place = pool.take(self.kind, &self.owner, more);
        if let (Some((number, _)), false) = (&place, waits) {
            pool.leave(&self.owner, *number);
        }
        self.budget.note(&pool);
        place
    }

    fn exceeded(&self) -> BudgetExceeded {
        match self.kind {
            MemoryKind::Body => BudgetExceeded { limit: Limit::BodyMemory, value: self.budget.bodies() },
            MemoryKind::Frame | MemoryKind::Answer | MemoryKind::Fold => {
                BudgetExceeded { limit: Limit::Memory, value: self.budget.size() }
            }
        }
    }

    /// Releases all bytes beyond this many.
    pub fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        if less > 0 {
            self.give_back(less);
        }
    }

    /// Releases all bytes held; the handle can take again.
    pub fn release(&mut self) {
        self.shrink(0);
    }

    fn give_back(&self, bytes: usize) {
        let mut pool = self.budget.pool();
        pool.remove(self.kind, &self.owner, bytes);
        pool.grant();
        self.budget.note(&pool);
    }
}

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.release();
    }
}

/// Wait for bytes. A caller that leaves gives it up.
struct Waiting<'p> {
    permit: &'p BudgetPermit,
    /// Number of the wait; `None` once its bytes were taken.
    number: Option<u64>,
    more: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let permit = self.permit;
        let mut pool = permit.budget.pool();
        if !pool.leave(&permit.owner, number) {
            pool.remove(permit.kind, &permit.owner, self.more);
        }
        // The owner's next wait may be for less.
        pool.grant();
        permit.budget.note(&pool);
    }
}
