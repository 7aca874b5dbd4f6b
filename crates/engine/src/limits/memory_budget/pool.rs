//! Held bytes of a memory budget, and the waits for more.

use std::collections::{HashMap, VecDeque};

use threadline_core::{
    ProjectId,
    limits::{MEMORY_WAITERS_TRIED, PROJECT_MEMORY_SHARE},
};
use tokio::sync::oneshot;

use super::owner::{BudgetOwner, MemoryKind};

/// Held bytes, and the waits for more. Only owners that hold bytes or wait are in it.
pub(super) struct Pool {
    pub all: Ledger,
    /// Bodies: a part of all.
    pub bodies: Ledger,
    pub kinds: [usize; MemoryKind::ALL.len()],
    pub holders: HashMap<BudgetOwner, Holder>,
    /// Owners that wait, in the order in which they are tried.
    pub round: VecDeque<BudgetOwner>,
    newest: u64,
}

/// Bytes that are shared, and what the projects hold of them.
pub(super) struct Ledger {
    size: usize,
    pub used: usize,
    pub projects: HashMap<ProjectId, usize>,
}

#[derive(Default)]
pub(super) struct Holder {
    bytes: usize,
    /// Bytes of bodies among them.
    bodies: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    kind: MemoryKind,
    more: usize,
    grant: oneshot::Sender<()>,
}

impl Ledger {
    fn new(size: usize) -> Self {
        Self { size, used: 0, projects: HashMap::new() }
    }

    /// True if an owner of `held` bytes may take `more` now.
    fn fits(&self, owner: &BudgetOwner, held: usize, more: usize) -> bool {
        let counted = owner.counted(held.saturating_add(more));
        let new = counted - owner.counted(held);
        if new == 0 {
            return true;
        }
        let Some(free) = self.size.checked_sub(self.used).and_then(|free| free.checked_sub(new)) else { return false };
        let Some(client) = owner.client() else { return true };
        let project = self.projects.get(&client.project).copied().unwrap_or(0) + new;
        project <= free.saturating_mul(PROJECT_MEMORY_SHARE) && (!owner.is_untrusted() || counted <= free)
    }

    /// Changes what an owner holds.
    fn change(&mut self, owner: &BudgetOwner, before: usize, after: usize) {
        let (before, after) = (owner.counted(before), owner.counted(after));
        if before == after {
            return;
        }
        self.used = self.used - before + after;
        let Some(client) = owner.client() else { return };
        let project = self.projects.entry(client.project.clone()).or_default();
        *project = *project - before + after;
        if *project == 0 {
            self.projects.remove(&client.project);
        }
    }
}

impl Pool {
    pub fn new(size: usize, bodies: usize) -> Self {
        Self {
            all: Ledger::new(size),
            bodies: Ledger::new(bodies),
            kinds: [0; MemoryKind::ALL.len()],
            holders: HashMap::new(),
            round: VecDeque::new(),
            newest: 0,
        }
    }

    fn fits(&self, kind: MemoryKind, owner: &BudgetOwner, more: usize) -> bool {
        let (bytes, bodies) = self.holders.get(owner).map_or((0, 0), |holder| (holder.bytes, holder.bodies));
        self.all.fits(owner, bytes, more) && (kind != MemoryKind::Body || self.bodies.fits(owner, bodies, more))
    }

    fn add(&mut self, kind: MemoryKind, owner: &BudgetOwner, more: usize) {
        let holder = self.holders.entry(owner.clone()).or_default();
        self.all.change(owner, holder.bytes, holder.bytes + more);
        holder.bytes += more;
        if kind == MemoryKind::Body {
            self.bodies.change(owner, holder.bodies, holder.bodies + more);
            holder.bodies += more;
        }
        self.kinds[kind as usize] += more;
    }

    pub fn remove(&mut self, kind: MemoryKind, owner: &BudgetOwner, less: usize) {
        let Some(holder) = self.holders.get_mut(owner) else { return };
        self.all.change(owner, holder.bytes, holder.bytes - less);
        holder.bytes -= less;
        if kind == MemoryKind::Body {
            self.bodies.change(owner, holder.bodies, holder.bodies - less);
            holder.bodies -= less;
        }
        self.kinds[kind as usize] -= less;
        if holder.bytes == 0 && holder.waiting.is_empty() {
            self.holders.remove(owner);
        }
    }

    /// Takes the bytes, or queues for them.
    pub fn take(&mut self, kind: MemoryKind, owner: &BudgetOwner, more: usize) -> Option<(u64, oneshot::Receiver<()>)> {
        let waits = self.holders.get(owner).is_some_and(|holder| !holder.waiting.is_empty());
        if !waits && self.fits(kind, owner, more) {
            self.add(kind, owner, more);
            return None;
        }
        self.newest += 1;
        let (number, (grant, granted)) = (self.newest, oneshot::channel());
        let holder = self.holders.entry(owner.clone()).or_default();
        holder.waiting.push_back(Waiter { number, kind, more, grant });
        if !waits {
            self.round.push_back(owner.clone());
        }
        Some((number, granted))
    }

    /// Grants what fits now. Of many owners that wait only some are tried, the others with the next release.
    pub fn grant(&mut self) {
        for _ in 0..self.round.len().min(MEMORY_WAITERS_TRIED) {
            let Some(owner) = self.round.pop_front() else { return };
            while let Some((kind, more)) = self.first(&owner)
                && self.fits(kind, &owner, more)
            {
                self.add(kind, &owner, more);
                let first = self.holders.get_mut(&owner).and_then(|holder| holder.waiting.pop_front());
                // The receiver is there: a wait that ends leaves the pool before it drops the receiver.
                first.map(|waiter| waiter.grant.send(()));
            }
            if self.first(&owner).is_some() {
                self.round.push_back(owner);
            }
        }
    }

    fn first(&self, owner: &BudgetOwner) -> Option<(MemoryKind, usize)> {
        self.holders.get(owner)?.waiting.front().map(|waiter| (waiter.kind, waiter.more))
    }

    /// Removes a wait that has ended. False if its bytes were granted meanwhile.
    pub fn leave(&mut self, owner: &BudgetOwner, number: u64) -> bool {
        let Some(holder) = self.holders.get_mut(owner) else { return false };
        let Some(at) = holder.waiting.iter().position(|waiter| waiter.number == number) else { return false };
        holder.waiting.remove(at);
        if holder.waiting.is_empty() {
            self.round.retain(|waiting| waiting != owner);
            if holder.bytes == 0 {
                self.holders.remove(owner);
            }
        }
        true
    }
}
