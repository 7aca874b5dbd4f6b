//! Queue of the work that a node does for its clients beyond single statements: folds of conversations, scans of logs,
//! searches. Work is done in slices, and queues again after each, so that long work of one client delays the short work
//! of another by a slice and not by all of it.
//!
//! Slices are granted round robin over projects, and within a project over its untrusted clients; all keys of a project
//! together count as one more client. A slice that was larger than usual (an event of megabytes, a large snapshot)
//! leaves a debt: its client is passed over until the debt is repaid.
//!
//! Some steps cannot be cut: a large state is read, written and dropped as a whole. Such long steps are done in all slots
//! but one, so that short slices wait for none of them.

mod order;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use order::{Full, Length, Order, Place};
use threadline_core::{
    Limit, Principal, ProjectId,
    limits::{
        CLIENT_WORK_WAITING, LONG_INPUT_BYTES, LONG_STEP_BYTES, PROJECT_WORK_WAITING, QUOTA_RETRY, WORK_SLICE_BYTES,
        WORK_SLICE_ROWS, WORK_WAIT,
    },
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::yield_now,
    time::timeout,
};

use super::{
    client::Client,
    quota::{Account, Limited, Quota},
};

/// Cost of a row, in bytes: a slice of rows costs as much as one of bytes.
const ROW: usize = WORK_SLICE_BYTES.div_ceil(WORK_SLICE_ROWS);

/// Queue of a node. Cheap to clone; the clones share the queue.
#[derive(Clone)]
pub struct FairQueue(Arc<Shared>);

struct Shared {
    slots: usize,
    quota: Quota,
    order: Mutex<Order>,
}

/// Work that has begun.
pub struct QueuedWork {
    begun: Arc<Begun>,
    slice: Option<Arc<SlicePermit>>,
}

/// Permit for a slice; released when dropped. A thread that works for a client keeps a clone, because the client may
/// leave before the thread is done.
pub struct SlicePermit {
    begun: Arc<Begun>,
    length: Length,
    bytes: AtomicUsize,
    rows: AtomicUsize,
}

/// Work that has begun, until it and the permits of its slices are dropped.
struct Begun {
    queue: FairQueue,
    owner: Client,
    /// Account that each slice is charged to, once it was done.
    account: Account,
}

impl FairQueue {
    /// Queue of which this many slices are done at once.
    pub fn new(slots: usize, quota: Quota) -> Self {
        let order = Mutex::new(Order::new(slots));
        Self(Arc::new(Shared { slots, quota, order }))
    }

    /// Number of slices that are done at once.
    pub fn slots(&self) -> usize {
        self.0.slots
    }

    /// Begins work for a principal: returns once its first slice may be done. Refused at once if its client has too much
    /// work waiting, and after [`WORK_WAIT`].
    pub async fn begin(&self, principal: &Principal) -> Result<QueuedWork, Limited> {
        self.enter(Client::of(principal), self.0.quota.account(principal), Length::Short).await
    }

    /// Begins work that the node does for a project by itself: queued like work of the project's keys, and free of charge.
    pub async fn begin_for(&self, project: &ProjectId) -> Result<QueuedWork, Limited> {
        self.enter(Client::keys(project), Account::default(), Length::Short).await
    }

    /// Does work over this many bytes that a client has sent. Short work is done at once. Long work waits for its turn, is
    /// charged, and blocks no other task of its thread.
    pub async fn process<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        work: impl FnOnce() -> T,
    ) -> Result<T, Limited> {
        if bytes < LONG_INPUT_BYTES {
            return Ok(work());
        }
        let queued = self.enter(Client::of(principal), self.0.quota.account(principal), Length::of(bytes)).await?;
        queued.done(bytes, 0);
        Ok(in_place(work))
    }

    async fn enter(&self, owner: Client, account: Account, length: Length) -> Result<QueuedWork, Limited> {
        let place = self.order().enter(&owner, length).map_err(|full| match full {
            Full::Client => self.0.quota.refuse(Limit::UserWork, CLIENT_WORK_WAITING as u64, QUOTA_RETRY),
            Full::Project => self.0.quota.refuse(Limit::ProjectWork, PROJECT_WORK_WAITING as u64, QUOTA_RETRY),
        })?;
        self.wait(&owner, place, length, true).await?;
        let begun = Arc::new(Begun { queue: self.clone(), owner, account });
        let slice = Some(Arc::new(SlicePermit::new(begun.clone(), length)));
        Ok(QueuedWork { begun, slice })
    }

    async fn wait(&self, owner: &Client, place: Place, length: Length, begins: bool) -> Result<(), Limited> {
        let (number, mut granted) = place;
        let mut waiting = Waiting { queue: self, owner, number: Some(number), length, begins };
        self.order().grant();
        // The sender is dropped only by a grant, or by this wait.
        if timeout(WORK_WAIT, &mut granted).await.is_ok() {
            waiting.number = None;
            return Ok(());
        }
        drop(waiting);
        Err(self.0.quota.refuse(Limit::WorkWaitSeconds, WORK_WAIT.as_secs(), QUOTA_RETRY))
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.0.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs long work on this thread, whose other tasks move to another one. On a runtime of one thread, which only tests have,
/// they wait.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    if has_one_thread() { work() } else { tokio::task::block_in_place(work) }
}

/// True on a runtime of one thread.
pub(crate) fn has_one_thread() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

impl Length {
    /// Length of a step over this many bytes.
    fn of(bytes: usize) -> Self {
        if bytes < LONG_STEP_BYTES { Self::Short } else { Self::Long }
    }
}

impl QueuedWork {
    /// Counts what was done in this slice: bytes of events or of a snapshot, or what rows cost; and rows of the store. The
    /// bytes are charged.
    pub fn done(&self, bytes: usize, rows: usize) {
        if let Some(slice) = &self.slice {
            slice.bytes.fetch_add(bytes, Relaxed);
            slice.rows.fetch_add(rows, Relaxed);
        }
    }

    /// Counts a step over this many bytes in this slice, free of charge.
    pub fn took(&self, bytes: usize) {
        self.done(0, bytes / ROW);
    }

    /// Permit of the present slice, for a thread that works for this client.
    pub fn permit(&self) -> Option<Arc<SlicePermit>> {
        self.slice.clone()
    }

    /// Ends the slice early, for a wait for something else.
    pub fn pause(&mut self) {
        self.slice = None;
    }

    /// Continues the work. A slice that is used up ends, and this waits for the next one.
    pub async fn go_on(&mut self) -> Result<(), Limited> {
        self.step(0).await
    }

    /// Continues the work with a step over this many bytes that cannot be cut.
    pub async fn step(&mut self, bytes: usize) -> Result<(), Limited> {
        let length = Length::of(bytes);
        let serves = |slice: &Arc<SlicePermit>| slice.length == Length::Long || length == Length::Short;
        if self.slice.as_ref().is_some_and(|slice| !slice.is_used_up() && serves(slice)) {
            return Ok(());
        }
        self.slice = None;
        // A place that is granted at once is no point at which the runtime runs other tasks of this thread.
        yield_now().await;
        let Begun { queue, owner, .. } = &*self.begun;
        let place = queue.order().again(owner, length);
        queue.wait(owner, place, length, false).await?;
        self.slice = Some(Arc::new(SlicePermit::new(self.begun.clone(), length)));
        Ok(())
    }
}

impl SlicePermit {
    fn new(begun: Arc<Begun>, length: Length) -> Self {
        Self { begun, length, bytes: AtomicUsize::new(0), rows: AtomicUsize::new(0) }
    }

    fn is_used_up(&self) -> bool {
        self.bytes.load(Relaxed) >= WORK_SLICE_BYTES || self.rows.load(Relaxed) >= WORK_SLICE_ROWS
    }
}

impl Drop for SlicePermit {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Relaxed);
        self.begun.account.charge(bytes);
        let cost = bytes.max(self.rows.load(Relaxed).saturating_mul(ROW));
        let mut order = self.begun.queue.order();
        order.charge(&self.begun.owner, cost);
        order.release(self.length);
        order.grant();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut order = self.queue.order();
        order.ended(&self.owner);
        order.grant();
    }
}

/// Place of a wait in the queue. A caller that leaves gives it up.
struct Waiting<'q> {
    queue: &'q FairQueue,
    owner: &'q Client,
    /// Number of the place; `None` once its slice has begun.
    number: Option<u64>,
    length: Length,
    begins: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut order = self.queue.order();
            order.leave(self.owner, number, self.length, self.begins);
            order.grant();
        }
    }
}
