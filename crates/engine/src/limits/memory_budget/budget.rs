//! Memory of a node: what is held, and what is free.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use threadline_core::limits::{BODY_MEMORY_BYTES, MIN_MEMORY_BYTES};
use tokio::sync::Notify;

use super::{owner::MemoryKind, pool::Pool};

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

/// Least memory that a node may have.
impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(MIN_MEMORY_BYTES, BODY_MEMORY_BYTES)
    }
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
            pool: Mutex::new(Pool::new(size, bodies.min(size))),
            used: AtomicUsize::new(0),
            rings: AtomicUsize::new(0),
            pressed: Notify::new(),
        }))
    }

    /// Bytes of bodies at most.
    pub(super) fn bodies(&self) -> usize {
        self.0.bodies
    }

    /// Bytes that are shared.
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

    /// Bytes that the rings of all followed threads hold.
    pub fn rings(&self) -> usize {
        self.0.rings.load(Relaxed)
    }

    /// True if the rings do not fit beside what is held.
    pub(crate) fn is_short(&self) -> bool {
        self.0.used.load(Relaxed).saturating_add(self.rings()) > self.0.size
    }

    pub(crate) fn add_ring(&self, bytes: usize) {
        self.0.rings.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove_ring(&self, bytes: usize) {
        self.0.rings.fetch_sub(bytes, Relaxed);
    }

    /// Waits until rings must give way.
    pub(crate) async fn pressed(&self) {
        self.0.pressed.notified().await;
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what the pool holds, for readers without its lock.
    pub(super) fn note(&self, pool: &Pool) {
        self.0.used.store(pool.all.used, Relaxed);
        if self.is_short() {
            self.0.pressed.notify_one();
        }
    }
}
