//! Memory of a node that all clients share. What a project or an untrusted client may hold follows from what is free, so
//! one alone has most of it, many share it evenly, and some is always left for the next. A client that keeps its memory
//! delays itself, and no other client.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use threadline_core::{
    Limit, Principal, ProjectId, UserId,
    limits::{MEMORY_FREE_BYTES, MEMORY_WAITERS_TRIED, PROJECT_MEMORY_SHARE},
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

/// Bytes that may be held at once. Cheap to clone; the clones share the budget.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    size: usize,
    bodies: usize,
    pool: Mutex<Pool>,
    /// Bytes counted in the pool, and bytes of rings.
    used: AtomicUsize,
    rings: AtomicUsize,
    /// Notified once rings must give way.
    pressed: Notify,
}

/// Purpose of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Bodies of requests.
    Body,
    /// Incomplete messages of sockets.
    Frame,
    /// Large responses.
    Answer,
    /// Conversations that are being folded.
    Fold,
}

impl MemoryKind {
    /// All kinds, each once.
    pub const ALL: [Self; 4] = [Self::Body, Self::Frame, Self::Answer, Self::Fold];

    /// Name in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Frame => "frame",
            Self::Answer => "answer",
            Self::Fold => "fold",
        }
    }
}

/// Client within a project: an untrusted one, or all keys together (`None`).
type Client = (ProjectId, Option<UserId>);

/// Owner of memory: a client in its project, or the node itself (the default).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BudgetOwner(Option<Arc<Client>>);

impl BudgetOwner {
    /// Owner of a principal's memory.
    pub fn of(principal: &Principal) -> Self {
        let user = principal.user.clone().filter(|_| principal.is_untrusted());
        Self(Some(Arc::new((principal.project.clone(), user))))
    }

    fn is_untrusted(&self) -> bool {
        self.0.as_ref().is_some_and(|client| client.1.is_some())
    }

    /// Bytes that count, of those that this owner holds.
    fn counted(&self, bytes: usize) -> usize {
        if self.0.is_some() { bytes.saturating_sub(MEMORY_FREE_BYTES) } else { bytes }
    }
}

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

/// Held bytes, and the waits for more. Only owners that hold bytes or wait are in it.
struct Pool {
    all: Ledger,
    /// Bodies: a part of all.
    bodies: Ledger,
    kinds: [usize; MemoryKind::ALL.len()],
    holders: HashMap<BudgetOwner, Holder>,
    /// Owners that wait, in the order in which they are tried.
    round: VecDeque<BudgetOwner>,
    newest: u64,
}

/// Bytes that are shared, and what the projects hold of them.
struct Ledger {
    size: usize,
    used: usize,
    projects: HashMap<ProjectId, usize>,
}

#[derive(Default)]
struct Holder {
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

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("size", &self.0.size).field("free", &self.free()).finish_non_exhaustive()
    }
}

impl MemoryBudget {
    /// Budget of this many bytes, of which bodies hold at most `bodies`.
    pub fn new(size: usize, bodies: usize) -> Self {
        Self(Arc::new(Shared {
            size,
            bodies,
            pool: Mutex::new(Pool {
                all: Ledger::new(size),
                bodies: Ledger::new(bodies.min(size)),
                kinds: [0; MemoryKind::ALL.len()],
                holders: HashMap::new(),
                round: VecDeque::new(),
                newest: 0,
            }),
            used: AtomicUsize::new(0),
            rings: AtomicUsize::new(0),
            pressed: Notify::new(),
        }))
    }

    /// Handle that holds no bytes yet.
    pub fn place(&self, kind: MemoryKind, owner: &BudgetOwner) -> BudgetPermit {
        BudgetPermit { budget: self.clone(), kind, owner: owner.clone(), bytes: 0 }
    }

    /// Bytes of the pool.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Bytes that are not held. Rings do not count: they give way.
    pub fn free(&self) -> usize {
        self.0.size.saturating_sub(self.0.used.load(Relaxed))
    }

    /// Bytes held, by kind.
    pub fn held(&self) -> [(MemoryKind, usize); MemoryKind::ALL.len()] {
        let kinds = self.pool().kinds;
        MemoryKind::ALL.map(|kind| (kind, kinds[kind as usize]))
    }

    /// Bytes of rings.
    pub fn rings(&self) -> usize {
        self.0.rings.load(Relaxed)
    }

    /// True if the rings do not fit beside what is held.
    pub(super) fn is_short(&self) -> bool {
        self.0.used.load(Relaxed).saturating_add(self.rings()) > self.0.size
    }

    pub(super) fn add_ring(&self, bytes: usize) {
        self.0.rings.fetch_add(bytes, Relaxed);
    }

    pub(super) fn remove_ring(&self, bytes: usize) {
        self.0.rings.fetch_sub(bytes, Relaxed);
    }

    pub(super) async fn pressed(&self) {
        self.0.pressed.notified().await;
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what the pool holds, for readers without its lock.
    fn note(&self, pool: &Pool) {
        self.0.used.store(pool.all.used, Relaxed);
        if self.is_short() {
            self.0.pressed.notify_one();
        }
    }
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
        let Some(client) = &owner.0 else { return true };
        let project = self.projects.get(&client.0).copied().unwrap_or(0) + new;
        project <= free.saturating_mul(PROJECT_MEMORY_SHARE) && (!owner.is_untrusted() || counted <= free)
    }

    /// Changes what an owner holds.
    fn change(&mut self, owner: &BudgetOwner, before: usize, after: usize) {
        let (before, after) = (owner.counted(before), owner.counted(after));
        if before == after {
            return;
        }
        self.used = self.used - before + after;
        let Some(client) = &owner.0 else { return };
        let project = self.projects.entry(client.0.clone()).or_default();
        *project = *project - before + after;
        if *project == 0 {
            self.projects.remove(&client.0);
        }
    }
}

impl Pool {
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

    fn remove(&mut self, kind: MemoryKind, owner: &BudgetOwner, less: usize) {
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
    fn take(&mut self, kind: MemoryKind, owner: &BudgetOwner, more: usize) -> Option<(u64, oneshot::Receiver<()>)> {
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
    fn grant(&mut self) {
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
    fn leave(&mut self, owner: &BudgetOwner, number: u64) -> bool {
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

impl BudgetPermit {
    /// Bytes held at this moment, 0 after a release.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes that this owner can ever hold, alone.
    pub fn most(&self) -> usize {
        let size = self.budget.0.size;
        match &self.owner.0 {
            None => size,
            Some(_) if self.owner.is_untrusted() => size / 2,
            Some(_) => size / (PROJECT_MEMORY_SHARE + 1) * PROJECT_MEMORY_SHARE,
        }
    }

    /// Moves all bytes into a permit of their own.
    pub fn take_over(&mut self) -> Self {
        let empty = self.budget.place(self.kind, &self.owner);
        std::mem::replace(self, empty)
    }

    /// Takes this many more bytes as soon as the owner's share allows it.
    pub async fn take(&mut self, more: usize, until: Instant) -> Result<(), BudgetExceeded> {
        let Self { budget, kind, owner, .. } = &*self;
        let place = {
            let mut pool = budget.pool();
            let place = pool.take(*kind, owner, more);
            budget.note(&pool);
            place
        };
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

    fn exceeded(&self) -> BudgetExceeded {
        match self.kind {
            MemoryKind::Body => BudgetExceeded { limit: Limit::BodyMemory, value: self.budget.0.bodies },
            MemoryKind::Frame | MemoryKind::Answer | MemoryKind::Fold => {
                BudgetExceeded { limit: Limit::Memory, value: self.budget.0.size }
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
        if !permit.budget.pool().leave(&permit.owner, number) {
            permit.give_back(self.more);
        }
    }
}

#[cfg(test)]
mod tests;
