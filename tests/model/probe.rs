//! A store that counts, that can be held up, and that can take its time.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use async_trait::async_trait;
use threadline::{
    domain::{AgentId, Fence, NewThread, ProjectId, Run, RunId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch, UserId},
    store::{
        ActiveHead, AgentStore, Append, Appended, Beat, CloseOutcome, Closing, Due, FeedPage, FeedStore, Head,
        ListThreads, LogPage, LogStore, ReadFrom, RunStore, Snapshot, SnapshotStore, StartOutcome, StartRun,
        StopOutcome, StoreResult, ThreadPage, ThreadStore, Unprojected, memory::MemoryStore,
    },
};
use tokio::sync::watch;

use crate::support::Rng;

/// Lets calls through, or holds them until it is opened.
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Gate {
    fn new() -> Self {
        Self { open: watch::Sender::new(true) }
    }

    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        if !*self.open.borrow() {
            self.open.subscribe().wait_for(|open| *open).await.expect("the gate is there");
        }
    }
}

/// A memory store behind a glass.
pub struct Probe {
    inner: Arc<MemoryStore>,
    jitter: Option<Mutex<Rng>>,
    /// Calls of `read`.
    pub reads: AtomicUsize,
    /// Calls of `start`.
    starts: AtomicUsize,
    /// Calls of `append`, each with the events of its entries.
    pub appends: Mutex<Vec<Vec<usize>>>,
    /// Holds `append`.
    pub append_gate: Gate,
    /// Holds `read`.
    pub read_gate: Gate,
    /// Holds `run`.
    pub run_gate: Gate,
}

impl Probe {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self {
            inner,
            jitter: None,
            reads: AtomicUsize::new(0),
            starts: AtomicUsize::new(0),
            appends: Mutex::default(),
            append_gate: Gate::new(),
            read_gate: Gate::new(),
            run_gate: Gate::new(),
        }
    }

    /// One whose calls take up to 2 ms, before and after the effect.
    pub fn slow(inner: Arc<MemoryStore>, rng: Rng) -> Self {
        Self { jitter: Some(Mutex::new(rng)), ..Self::new(inner) }
    }

    pub fn take_reads(&self) -> usize {
        self.reads.swap(0, SeqCst)
    }

    pub fn starts(&self) -> usize {
        self.starts.load(SeqCst)
    }

    pub fn take_appends(&self) -> Vec<Vec<usize>> {
        std::mem::take(&mut self.appends.lock().expect("lock"))
    }

    async fn jitter(&self) {
        let Some(rng) = &self.jitter else { return };
        let (wait, time) = {
            let mut rng = rng.lock().expect("lock");
            (rng.below(4), rng.millis(3))
        };
        match wait {
            0 => tokio::time::sleep(time).await,
            1 => tokio::task::yield_now().await,
            _ => {}
        }
    }

    async fn slowly<T>(&self, work: impl Future<Output = T>) -> T {
        self.jitter().await;
        let done = work.await;
        self.jitter().await;
        done
    }
}

#[async_trait]
impl ThreadStore for Probe {
    async fn create_thread(&self, new: NewThread) -> StoreResult<(Thread, bool)> {
        self.slowly(self.inner.create_thread(new)).await
    }
    async fn thread(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        self.slowly(self.inner.thread(project, id)).await
    }
    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        self.slowly(self.inner.list_threads(list)).await
    }
    async fn edit_thread(&self, key: ThreadKey, version: i64, patch: ThreadPatch) -> StoreResult<Option<Thread>> {
        self.slowly(self.inner.edit_thread(key, version, patch)).await
    }
    async fn delete_thread(&self, key: ThreadKey) -> StoreResult<bool> {
        self.slowly(self.inner.delete_thread(key)).await
    }
    async fn purge(&self, rows: usize) -> StoreResult<bool> {
        self.slowly(self.inner.purge(rows)).await
    }
}

#[async_trait]
impl RunStore for Probe {
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome> {
        self.starts.fetch_add(1, SeqCst);
        self.slowly(self.inner.start(start)).await
    }
    async fn close(&self, key: ThreadKey, closing: Closing, if_due: bool) -> StoreResult<CloseOutcome> {
        self.slowly(self.inner.close(key, closing, if_due)).await
    }
    async fn heartbeat(&self, beats: &[Beat]) -> StoreResult<Vec<Option<ActiveHead>>> {
        self.slowly(self.inner.heartbeat(beats)).await
    }
    async fn request_stop(&self, key: ThreadKey, run: &RunId) -> StoreResult<StopOutcome> {
        self.slowly(self.inner.request_stop(key, run)).await
    }
    async fn release(&self, key: ThreadKey, fence: Fence) -> StoreResult<bool> {
        self.slowly(self.inner.release(key, fence)).await
    }
    async fn due(&self, limit: usize) -> StoreResult<Vec<Due>> {
        self.slowly(self.inner.due(limit)).await
    }
    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        self.run_gate.pass().await;
        self.slowly(self.inner.run(key, run)).await
    }
    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        self.slowly(self.inner.runs(key, before, limit)).await
    }
}

#[async_trait]
impl LogStore for Probe {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        self.appends.lock().expect("lock").push(batch.iter().map(|append| append.events.count()).collect());
        self.append_gate.pass().await;
        self.slowly(self.inner.append(batch)).await
    }
    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        self.reads.fetch_add(1, SeqCst);
        self.read_gate.pass().await;
        self.slowly(self.inner.read(key, from, max_events)).await
    }
    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        self.slowly(self.inner.heads(keys)).await
    }
    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        self.slowly(self.inner.seal(key)).await
    }
    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.slowly(self.inner.seal_backlog(limit)).await
    }
}

#[async_trait]
impl FeedStore for Probe {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<u64> {
        self.slowly(self.inner.pump_feed(project, user)).await
    }
    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        self.slowly(self.inner.feed(project, user, after, limit)).await
    }
    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        self.slowly(self.inner.was_deleted(project, user, id)).await
    }
    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<u64>> {
        self.slowly(self.inner.feed_heads(feeds)).await
    }
    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        self.slowly(self.inner.dirty_feeds(limit)).await
    }
}

#[async_trait]
impl SnapshotStore for Probe {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        self.slowly(self.inner.put_snapshot(key, snapshot, dropped)).await
    }
    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        self.slowly(self.inner.snapshot(key, at, version)).await
    }
    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        self.slowly(self.inner.snapshot_seqs(key)).await
    }
    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        self.slowly(self.inner.unprojected(key, version)).await
    }
}

#[async_trait]
impl AgentStore for Probe {
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()> {
        self.slowly(self.inner.put_agent(project, id, definition)).await
    }
    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        self.slowly(self.inner.agents(project)).await
    }
    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool> {
        self.slowly(self.inner.delete_agent(project, id)).await
    }
}
