//! A store behind a glass: it counts what is asked of it, can be held up, and can be away for a while.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use threadline::{
    domain::{AgentId, Fence, NewThread, ProjectId, Run, RunId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch, UserId},
    store::{
        ActiveHead, AgentStore, Append, Appended, Beat, CloseOutcome, Closing, Due, DynStore, FeedPage, FeedStore,
        Head, ListThreads, LogPage, LogStore, ReadFrom, RunStore, Snapshot, SnapshotStore, StartOutcome, StartRun,
        StopOutcome, StoreError, StoreResult, ThreadPage, ThreadStore, Unprojected,
    },
};
use tokio::sync::watch;

/// Lets calls through, or holds them until it is opened.
pub struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(true), arrived: watch::Sender::new(0) }
    }
}

impl Gate {
    pub fn hold(&self) {
        self.arrived.send_replace(0);
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until a call stands before the gate, or has passed it since it was closed.
    pub async fn reached(&self) {
        super::soon(self.arrived.subscribe().wait_for(|count| *count > 0)).await.map(drop).expect("the gate is there");
    }

    async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        self.open.subscribe().wait_for(|open| *open).await.map(drop).expect("the gate is there");
    }
}

/// What a call that is to fail does.
#[derive(Clone, Copy)]
pub enum Failing {
    /// Nothing.
    Before,
    /// What it was asked; only the answer is lost.
    After,
}

/// See above.
pub struct Glass {
    inner: DynStore,
    /// Calls of `read` and the events that they gave.
    pub reads: AtomicUsize,
    pub events_read: AtomicUsize,
    /// Calls of `snapshot`.
    pub snapshots: AtomicUsize,
    /// Calls of `append`.
    pub appends: AtomicUsize,
    /// Holds `append`.
    pub append_gate: Gate,
    /// Holds `start`.
    pub start_gate: Gate,
    failures: std::sync::Mutex<Vec<Failing>>,
}

impl Glass {
    pub fn new(inner: DynStore) -> Self {
        Self {
            inner,
            reads: AtomicUsize::new(0),
            events_read: AtomicUsize::new(0),
            snapshots: AtomicUsize::new(0),
            appends: AtomicUsize::new(0),
            append_gate: Gate::default(),
            start_gate: Gate::default(),
            failures: std::sync::Mutex::default(),
        }
    }

    /// The next calls of `append`, `close`, `heartbeat` and `request_stop` fail like this, in this order.
    pub fn fail(&self, failures: &[Failing]) {
        self.failures.lock().expect("lock").splice(0..0, failures.iter().rev().copied());
    }

    /// How many failures are left.
    pub fn failures(&self) -> usize {
        self.failures.lock().expect("lock").len()
    }

    async fn perhaps<T>(&self, work: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let failing = self.failures.lock().expect("lock").pop();
        if !matches!(failing, Some(Failing::Before)) {
            let done = work.await;
            if failing.is_none() {
                return done;
            }
        }
        Err(StoreError::Unavailable("the test has taken it away".into()))
    }
}

#[async_trait]
impl ThreadStore for Glass {
    async fn create_thread(&self, new: NewThread) -> StoreResult<(Thread, bool)> {
        self.inner.create_thread(new).await
    }
    async fn thread(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        self.inner.thread(project, id).await
    }
    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        self.inner.list_threads(list).await
    }
    async fn edit_thread(&self, key: ThreadKey, version: i64, patch: ThreadPatch) -> StoreResult<Option<Thread>> {
        self.inner.edit_thread(key, version, patch).await
    }
    async fn delete_thread(&self, key: ThreadKey) -> StoreResult<bool> {
        self.inner.delete_thread(key).await
    }
    async fn purge(&self, rows: usize) -> StoreResult<bool> {
        self.inner.purge(rows).await
    }
}

#[async_trait]
impl RunStore for Glass {
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome> {
        self.start_gate.pass().await;
        self.inner.start(start).await
    }
    async fn close(&self, key: ThreadKey, closing: Closing, if_due: bool) -> StoreResult<CloseOutcome> {
        self.perhaps(self.inner.close(key, closing, if_due)).await
    }
    async fn heartbeat(&self, beats: &[Beat]) -> StoreResult<Vec<Option<ActiveHead>>> {
        self.perhaps(self.inner.heartbeat(beats)).await
    }
    async fn request_stop(&self, key: ThreadKey, run: &RunId) -> StoreResult<StopOutcome> {
        self.perhaps(self.inner.request_stop(key, run)).await
    }
    async fn release(&self, key: ThreadKey, fence: Fence) -> StoreResult<bool> {
        self.inner.release(key, fence).await
    }
    async fn due(&self, limit: usize) -> StoreResult<Vec<Due>> {
        self.inner.due(limit).await
    }
    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        self.inner.run(key, run).await
    }
    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        self.inner.runs(key, before, limit).await
    }
}

#[async_trait]
impl LogStore for Glass {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        self.appends.fetch_add(1, SeqCst);
        self.append_gate.pass().await;
        self.perhaps(self.inner.append(batch)).await
    }
    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        self.reads.fetch_add(1, SeqCst);
        let page = self.inner.read(key, from, max_events).await?;
        self.events_read.fetch_add(page.as_ref().map_or(0, |page| page.slice.count() as usize), SeqCst);
        Ok(page)
    }
    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        self.inner.heads(keys).await
    }
    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        self.inner.seal(key).await
    }
    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.inner.seal_backlog(limit).await
    }
}

#[async_trait]
impl FeedStore for Glass {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<u64> {
        self.inner.pump_feed(project, user).await
    }
    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        self.inner.feed(project, user, after, limit).await
    }
    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        self.inner.was_deleted(project, user, id).await
    }
    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<u64>> {
        self.inner.feed_heads(feeds).await
    }
    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        self.inner.dirty_feeds(limit).await
    }
}

#[async_trait]
impl SnapshotStore for Glass {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        self.inner.put_snapshot(key, snapshot, dropped).await
    }
    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        self.snapshots.fetch_add(1, SeqCst);
        self.inner.snapshot(key, at, version).await
    }
    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        self.inner.snapshot_seqs(key).await
    }
    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        self.inner.unprojected(key, version).await
    }
}

#[async_trait]
impl AgentStore for Glass {
    async fn put_agent(&self, project: &ProjectId, id: &AgentId, definition: &str) -> StoreResult<()> {
        self.inner.put_agent(project, id, definition).await
    }
    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        self.inner.agents(project).await
    }
    async fn delete_agent(&self, project: &ProjectId, id: &AgentId) -> StoreResult<bool> {
        self.inner.delete_agent(project, id).await
    }
}
