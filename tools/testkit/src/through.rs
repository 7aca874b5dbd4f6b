//! A store whose calls pass through a [`Pass`], which may count, delay or fail each of them.

use std::{ops::Deref, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    AgentId, Annotation, ApiKey, AuditEntry, CreatedThread, Cutoff, Digest, DriverFence, Epoch, Family, FeedHead,
    Fence, Footprint, KeyId, KeyUse, NewAnnotation, NewThread, Node, NodeId, OpenInterrupt, ProjectId, ReadFrom, Run,
    RunId, Seq, Thread, ThreadId, ThreadKey, ThreadPatch, Timestamp, ToolClaim, TrashPage, TrashPosition, Usage,
    UsageOwner, UserId,
    checkpoints::{
        Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts, CheckpointPosition, FoundCheckpoint,
        FoundWrite, TaskId, TaskWrites, TypedData, WhichCheckpoints,
    },
    items::{Item, ItemRange, ListName, ListState},
    kv::{KvEntry, KvNamespace, KvOwner, KvPlace, Tag},
    streams::{Chunk, ProducerState, Stream, StreamKey, StreamPlace},
};
use threadline_store::{
    ActiveHead, ActiveRuns, Advance, Advanced, AgentStore, AnnotatedThread, AnnotationStore, Append, Appended, Arrival,
    AttemptStore, Beat, BranchStore, ChangeQueue, CheckpointBound, CheckpointDone, CheckpointPlace, CheckpointScope,
    CheckpointStore, ClaimOutcome, ClaimTurns, Claimed, CloseOutcome, CloseWhen, Closing, Committed, CredentialStore,
    DeletedCheckpoints, DigestKey, Due, Durability, DynStore, ErasureStore, FeedPage, FeedStore, GenerationRecord,
    Head, HeartbeatRequest, HoldStore, IdentityStore, IdlePage, IdlePlace, ItemPage, ItemStore, Job, JobEnd, JobKind,
    JobLevel, JobStore, JobSubject, KvFound, KvRange, KvStore, KvWrite, KvWritten, Lineage, LineageCause, LineageFence,
    LineageStore, ListDone, ListOp, ListThreads, LogPage, LogStore, MovedKv, MovedThread, Named, NewBeat, NodeStore,
    OwnedPlace, Packing, ProducerTurn, Published, Purging, PutCheckpoint, PutJob, Queue, QueueStore, Renewal, Renewed,
    Restoration, RetentionHold, RunStore, SecretForm, SecretName, SecretStore, Snapshot, SnapshotStore, StagedPart,
    Staging, StagingStore, StartOutcome, StartRun, StatusStore, StopOutcome, StoreClock, StoreResult, StoreStatus,
    StoredProject, StreamStore, StreamWrite, SweptStreams, TakeTurn, TakeUp, Taken, ThreadPage, ThreadStore,
    ToolClaimStore, TrashStore, Turn, TurnStore, Unprojected, UsageStore,
};

/// A call of the store.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the method.
    pub name: &'static str,
    /// The thread, if the call is about one.
    pub key: Option<ThreadKey>,
    /// The appends of the call.
    pub appends: &'a [Append],
}

/// Interceptor of calls.
pub trait Pass: Send + Sync {
    /// Carries out `work`, or fails instead.
    fn pass<T: Send>(
        &self,
        call: Call<'_>,
        work: impl Future<Output = StoreResult<T>> + Send,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// Observes a page of the log that was read.
    fn read(&self, _: &LogPage) {}

    /// Carries out an append; a planted bug does so in another way.
    fn append<'a>(
        &'a self,
        store: &'a DynStore,
        batch: &'a [Append],
    ) -> impl Future<Output = StoreResult<Vec<Option<Appended>>>> + Send {
        store.append(batch)
    }

    /// Claims the runs that are due; a planted bug does so in another way.
    fn claim_due<'a>(&'a self, store: &'a DynStore, limit: usize) -> impl Future<Output = StoreResult<Claimed>> + Send {
        store.claim_due(limit)
    }

    /// Reads heads; a planted bug does so in another way.
    fn heads<'a>(
        &'a self,
        store: &'a DynStore,
        keys: &'a [ThreadKey],
    ) -> impl Future<Output = StoreResult<Vec<Head>>> + Send {
        store.heads(keys)
    }
}

/// Store whose calls pass through an interceptor.
pub struct Through<P> {
    pub inner: DynStore,
    pub pass: P,
}

impl<P> Through<P> {
    pub fn new(inner: DynStore, pass: P) -> Self {
        Self { inner, pass }
    }
}

impl<P> Deref for Through<P> {
    type Target = P;
    fn deref(&self) -> &P {
        &self.pass
    }
}

fn of(name: &'static str, key: impl Into<Option<ThreadKey>>) -> Call<'static> {
    Call { name, key: key.into(), appends: &[] }
}

#[async_trait]
impl<P: Pass> ThreadStore for Through<P> {
    async fn create_thread(&self, new: NewThread) -> StoreResult<CreatedThread> {
        self.pass.pass(of("create_thread", None), self.inner.create_thread(new)).await
    }
    async fn was_request_deleted(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<bool> {
        self.pass.pass(of("was_request_deleted", None), self.inner.was_request_deleted(project, id)).await
    }
    async fn thread_of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        self.pass.pass(of("thread_of", None), self.inner.thread_of(project, user, id)).await
    }
    async fn thread_named(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Named> {
        self.pass.pass(of("thread_named", None), self.inner.thread_named(project, id)).await
    }
    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        self.pass.pass(of("list_threads", None), self.inner.list_threads(list)).await
    }
    async fn open_interrupts(&self, keys: &[ThreadKey]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>> {
        self.pass.pass(of("open_interrupts", None), self.inner.open_interrupts(keys)).await
    }
    async fn edit_thread(
        &self,
        key: ThreadKey,
        version: i64,
        patch: ThreadPatch,
        epoch: Option<Epoch>,
    ) -> StoreResult<Option<Thread>> {
        self.pass.pass(of("edit_thread", key), self.inner.edit_thread(key, version, patch, epoch)).await
    }
    async fn mark_read(&self, key: ThreadKey, seq: Seq, epoch: Option<Epoch>) -> StoreResult<Option<Thread>> {
        self.pass.pass(of("mark_read", key), self.inner.mark_read(key, seq, epoch)).await
    }
    async fn delete_thread(&self, key: ThreadKey, epoch: Option<Epoch>) -> StoreResult<bool> {
        self.pass.pass(of("delete_thread", key), self.inner.delete_thread(key, epoch)).await
    }
    async fn forget_requests(&self) -> StoreResult<()> {
        self.pass.pass(of("forget_requests", None), self.inner.forget_requests()).await
    }
    async fn purge(&self, key: ThreadKey, rows: usize) -> StoreResult<Purging> {
        self.pass.pass(of("purge", key), self.inner.purge(key, rows)).await
    }
}

#[async_trait]
impl<P: Pass> RunStore for Through<P> {
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome> {
        self.pass.pass(of("start", start.key), self.inner.start(start)).await
    }
    async fn close(&self, key: ThreadKey, closing: Closing, when: CloseWhen) -> StoreResult<CloseOutcome> {
        self.pass.pass(of("close", key), self.inner.close(key, closing, when)).await
    }
    async fn heartbeat(&self, beats: &[HeartbeatRequest]) -> StoreResult<Vec<Option<ActiveHead>>> {
        self.pass.pass(of("heartbeat", beats.first().map(|beat| beat.key)), self.inner.heartbeat(beats)).await
    }
    async fn request_stop(
        &self,
        key: ThreadKey,
        run: &RunId,
        epoch: Option<Epoch>,
        holds: bool,
    ) -> StoreResult<StopOutcome> {
        self.pass.pass(of("request_stop", key), self.inner.request_stop(key, run, epoch, holds)).await
    }
    async fn release(&self, key: ThreadKey, fence: Fence, epoch: Option<Epoch>) -> StoreResult<bool> {
        self.pass.pass(of("release", key), self.inner.release(key, fence, epoch)).await
    }
    async fn claim_due(&self, limit: usize) -> StoreResult<Claimed> {
        self.pass.pass(of("claim_due", None), self.pass.claim_due(&self.inner, limit)).await
    }
    async fn renew_leases(&self, which: Renewal, after: Option<ThreadKey>) -> StoreResult<Renewed> {
        self.pass.pass(of("renew_leases", None), self.inner.renew_leases(which, after)).await
    }
    async fn active_runs(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        bound: ActiveRuns,
    ) -> StoreResult<ActiveRuns> {
        self.pass.pass(of("active_runs", None), self.inner.active_runs(project, user, bound)).await
    }
    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        self.pass.pass(of("run", key), self.inner.run(key, run)).await
    }
    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        self.pass.pass(of("runs", key), self.inner.runs(key, before, limit)).await
    }
}

#[async_trait]
impl<P: Pass> QueueStore for Through<P> {
    async fn queue(&self, key: ThreadKey) -> StoreResult<Option<Queue>> {
        self.pass.pass(of("queue", key), self.inner.queue(key)).await
    }
    async fn change_queue(&self, change: ChangeQueue) -> StoreResult<Option<Head>> {
        self.pass.pass(of("change_queue", change.key), self.inner.change_queue(change)).await
    }
    async fn advance(&self, advance: Advance) -> StoreResult<Option<Advanced>> {
        self.pass.pass(of("advance", advance.key), self.inner.advance(advance)).await
    }
    async fn moving_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<Due>> {
        self.pass.pass(of("moving_queues", None), self.inner.moving_queues(after, limit)).await
    }
    async fn queued_turns(&self, project: &ProjectId, user: &UserId, bound: u64) -> StoreResult<u64> {
        self.pass.pass(of("queued_turns", None), self.inner.queued_turns(project, user, bound)).await
    }
}

#[async_trait]
impl<P: Pass> TurnStore for Through<P> {
    async fn claim_turns(&self, claim: &ClaimTurns) -> StoreResult<Vec<Turn>> {
        self.pass.pass(of("claim_turns", None), self.inner.claim_turns(claim)).await
    }
    async fn turns_of(&self, node: NodeId) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        self.pass.pass(of("turns_of", None), self.inner.turns_of(node)).await
    }
    async fn take_turn(&self, take: TakeTurn) -> StoreResult<Option<Taken>> {
        self.pass.pass(of("take_turn", take.key), self.inner.take_turn(take)).await
    }
    async fn mark_called(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<bool> {
        self.pass.pass(of("mark_called", key), self.inner.mark_called(key, run, driver)).await
    }
    async fn leave_turn(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<()> {
        self.pass.pass(of("leave_turn", key), self.inner.leave_turn(key, run, driver)).await
    }
}

#[async_trait]
impl<P: Pass> AttemptStore for Through<P> {
    async fn producer_turn(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<ProducerTurn>> {
        self.pass.pass(of("producer_turn", key), self.inner.producer_turn(key, run)).await
    }
    async fn take_up(&self, take: TakeUp) -> StoreResult<Option<Committed>> {
        self.pass.pass(of("take_up", take.key), self.inner.take_up(take)).await
    }
}

#[async_trait]
impl<P: Pass> LogStore for Through<P> {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        self.pass
            .pass(
                Call { appends: batch, ..of("append", batch.first().map(|append| append.key)) },
                self.pass.append(&self.inner, batch),
            )
            .await
    }
    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        let page = self.pass.pass(of("read", key), self.inner.read(key, from, max_events)).await?;
        page.iter().for_each(|page| self.pass.read(page));
        Ok(page)
    }
    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        self.pass.pass(of("heads", keys.first().copied()), self.pass.heads(&self.inner, keys)).await
    }
    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        self.pass.pass(of("seal", key), self.inner.seal(key)).await
    }
    async fn pack(&self, key: ThreadKey, idle: Duration) -> StoreResult<Packing> {
        self.pass.pass(of("pack", key), self.inner.pack(key, idle)).await
    }
    fn pipelines(&self) -> usize {
        self.inner.pipelines()
    }
}

#[async_trait]
impl<P: Pass> NodeStore for Through<P> {
    async fn put_beat(&self, beat: &NewBeat) -> StoreResult<Beat> {
        self.pass.pass(of("put_beat", None), self.inner.put_beat(beat)).await
    }
    async fn nodes(&self, limit: usize) -> StoreResult<(Timestamp, Vec<Node>)> {
        self.pass.pass(of("nodes", None), self.inner.nodes(limit)).await
    }
    async fn forget_nodes(&self, age: Duration) -> StoreResult<()> {
        self.pass.pass(of("forget_nodes", None), self.inner.forget_nodes(age)).await
    }
    fn beat_interval(&self) -> Duration {
        self.inner.beat_interval()
    }
}

#[async_trait]
impl<P: Pass> LineageStore for Through<P> {
    fn lineage(&self) -> &LineageFence {
        self.inner.lineage()
    }
    async fn adopt(&self, cause: LineageCause) -> StoreResult<Lineage> {
        self.pass.pass(of("adopt", None), self.inner.adopt(cause)).await
    }
    async fn generations(&self, limit: usize) -> StoreResult<Vec<GenerationRecord>> {
        self.pass.pass(of("generations", None), self.inner.generations(limit)).await
    }
}

#[async_trait]
impl<P: Pass> TrashStore for Through<P> {
    async fn trash(
        &self,
        project: &ProjectId,
        keys: &[ThreadKey],
        before: Timestamp,
        grace: Duration,
    ) -> StoreResult<Vec<ThreadKey>> {
        self.pass.pass(of("trash", None), self.inner.trash(project, keys, before, grace)).await
    }
    async fn trashed(
        &self,
        project: &ProjectId,
        after: Option<&TrashPosition>,
        limit: usize,
    ) -> StoreResult<TrashPage> {
        self.pass.pass(of("trashed", None), self.inner.trashed(project, after, limit)).await
    }
    async fn restore(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        id: &ThreadId,
        entry: &AuditEntry,
    ) -> StoreResult<Restoration> {
        self.pass.pass(of("restore", None), self.inner.restore(project, user, id, entry)).await
    }
    async fn trash_of(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.pass.pass(of("trash_of", None), self.inner.trash_of(project, user, limit)).await
    }
    async fn discard(&self, key: ThreadKey, early: bool) -> StoreResult<bool> {
        self.pass.pass(of("discard", key), self.inner.discard(key, early)).await
    }
}

#[async_trait]
impl<P: Pass> HoldStore for Through<P> {
    async fn count_idle(&self, project: &ProjectId, before: Timestamp, bound: usize) -> StoreResult<u64> {
        self.pass.pass(of("count_idle", None), self.inner.count_idle(project, before, bound)).await
    }
    async fn count_own(&self, project: &ProjectId) -> StoreResult<u64> {
        self.pass.pass(of("count_own", None), self.inner.count_own(project)).await
    }
    async fn hold(&self, hold: &RetentionHold, entry: &AuditEntry) -> StoreResult<bool> {
        self.pass.pass(of("hold", None), self.inner.hold(hold, entry)).await
    }
    async fn holds(&self) -> StoreResult<Vec<RetentionHold>> {
        self.pass.pass(of("holds", None), self.inner.holds()).await
    }
    async fn approve(&self, project: &ProjectId, count: u64, entry: &AuditEntry) -> StoreResult<Option<RetentionHold>> {
        self.pass.pass(of("approve", None), self.inner.approve(project, count, entry)).await
    }
    async fn spend(&self, project: &ProjectId, count: u64) -> StoreResult<()> {
        self.pass.pass(of("spend", None), self.inner.spend(project, count)).await
    }
    async fn end_hold(&self, project: &ProjectId) -> StoreResult<()> {
        self.pass.pass(of("end_hold", None), self.inner.end_hold(project)).await
    }
}

#[async_trait]
impl<P: Pass> JobStore for Through<P> {
    async fn take_jobs(&self, kind: JobKind, limit: usize) -> StoreResult<Vec<Job>> {
        self.pass.pass(of("take_jobs", None), self.inner.take_jobs(kind, limit)).await
    }
    async fn end_job(&self, job: &Job, end: JobEnd) -> StoreResult<()> {
        self.pass.pass(of("end_job", job.subject.thread()), self.inner.end_job(job, end)).await
    }
    async fn put_job(&self, kind: JobKind, subject: &JobSubject, after: Duration, put: PutJob) -> StoreResult<bool> {
        self.pass.pass(of("put_job", subject.thread()), self.inner.put_job(kind, subject, after, put)).await
    }
    async fn job_due(&self, kind: JobKind, subject: &JobSubject) -> StoreResult<Option<Duration>> {
        self.pass.pass(of("job_due", subject.thread()), self.inner.job_due(kind, subject)).await
    }
    async fn job_levels(&self) -> StoreResult<Vec<JobLevel>> {
        self.pass.pass(of("job_levels", None), self.inner.job_levels()).await
    }
    async fn tombstones(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.pass.pass(of("tombstones", None), self.inner.tombstones(project, user, limit)).await
    }
}

#[async_trait]
impl<P: Pass> StatusStore for Through<P> {
    fn clock(&self) -> &StoreClock {
        self.inner.clock()
    }
    async fn status(&self) -> StoreResult<StoreStatus> {
        self.pass.pass(of("status", None), self.inner.status()).await
    }
    async fn maintain(&self) -> StoreResult<()> {
        self.pass.pass(of("maintain", None), self.inner.maintain()).await
    }
    async fn durability(&self) -> StoreResult<Durability> {
        self.pass.pass(of("durability", None), self.inner.durability()).await
    }
    async fn shut_down(&self) {
        self.inner.shut_down().await;
    }
}

#[async_trait]
impl<P: Pass> FeedStore for Through<P> {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        self.pass.pass(of("pump_feed", None), self.inner.pump_feed(project, user)).await
    }
    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        self.pass.pass(of("feed", None), self.inner.feed(project, user, after, limit)).await
    }
    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        self.pass.pass(of("was_deleted", None), self.inner.was_deleted(project, user, id)).await
    }
    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<FeedHead>> {
        self.pass.pass(of("feed_heads", None), self.inner.feed_heads(feeds)).await
    }
    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        self.pass.pass(of("dirty_feeds", None), self.inner.dirty_feeds(limit)).await
    }
}

#[async_trait]
impl<P: Pass> SnapshotStore for Through<P> {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        self.pass.pass(of("put_snapshot", key), self.inner.put_snapshot(key, snapshot, dropped)).await
    }
    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        self.pass.pass(of("snapshot", key), self.inner.snapshot(key, at, version)).await
    }
    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        self.pass.pass(of("snapshot_seqs", key), self.inner.snapshot_seqs(key)).await
    }
    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        self.pass.pass(of("unprojected", key), self.inner.unprojected(key, version)).await
    }
}

#[async_trait]
impl<P: Pass> AnnotationStore for Through<P> {
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>> {
        self.pass.pass(of("put_annotation", key), self.inner.put_annotation(key, annotation)).await
    }
    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>> {
        self.pass.pass(of("annotations", key), self.inner.annotations(key, after, limit)).await
    }
}

#[async_trait]
impl<P: Pass> ToolClaimStore for Through<P> {
    async fn claim_tool_call(&self, key: ThreadKey, claim: &ToolClaim, lease: Duration) -> StoreResult<ClaimOutcome> {
        self.pass.pass(of("claim_tool_call", key), self.inner.claim_tool_call(key, claim, lease)).await
    }
    async fn drop_tool_claim(&self, key: ThreadKey, claim: &ToolClaim) -> StoreResult<()> {
        self.pass.pass(of("drop_tool_claim", key), self.inner.drop_tool_claim(key, claim)).await
    }
}

#[async_trait]
impl<P: Pass> StreamStore for Through<P> {
    async fn stream(
        &self,
        place: &StreamPlace,
        producer: Option<&str>,
    ) -> StoreResult<Option<(Stream, Option<ProducerState>)>> {
        self.pass.pass(of("stream", None), self.inner.stream(place, producer)).await
    }
    async fn write_stream(&self, write: StreamWrite) -> StoreResult<bool> {
        self.pass.pass(of("write_stream", None), self.inner.write_stream(write)).await
    }
    async fn stream_chunks(&self, key: StreamKey, after: u64, limit: usize, bytes: usize) -> StoreResult<Vec<Chunk>> {
        self.pass.pass(of("stream_chunks", None), self.inner.stream_chunks(key, after, limit, bytes)).await
    }
    async fn touch_stream(&self, key: StreamKey, expires_at: Timestamp) -> StoreResult<()> {
        self.pass.pass(of("touch_stream", None), self.inner.touch_stream(key, expires_at)).await
    }
    async fn delete_stream(&self, key: StreamKey, expired: Option<Timestamp>) -> StoreResult<bool> {
        self.pass.pass(of("delete_stream", None), self.inner.delete_stream(key, expired)).await
    }
    async fn sweep_streams(&self, now: Timestamp, limit: usize) -> StoreResult<SweptStreams> {
        self.pass.pass(of("sweep_streams", None), self.inner.sweep_streams(now, limit)).await
    }
}

#[async_trait]
impl<P: Pass> KvStore for Through<P> {
    async fn kv_entries(&self, owner: &KvOwner, places: &[KvPlace], bytes: usize) -> StoreResult<KvFound> {
        self.pass.pass(of("kv_entries", None), self.inner.kv_entries(owner, places, bytes)).await
    }
    async fn kv_page(&self, range: KvRange<'_>, after: Option<&KvPlace>, bytes: usize) -> StoreResult<Vec<KvEntry>> {
        self.pass.pass(of("kv_page", None), self.inner.kv_page(range, after, bytes)).await
    }
    async fn kv_namespaces(&self, range: KvRange<'_>, after: Option<&KvNamespace>) -> StoreResult<Vec<KvNamespace>> {
        self.pass.pass(of("kv_namespaces", None), self.inner.kv_namespaces(range, after)).await
    }
    async fn write_kv(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten> {
        self.pass.pass(of("write_kv", None), self.inner.write_kv(owner, writes)).await
    }
    async fn sweep_kv(&self, limit: usize) -> StoreResult<Vec<(KvOwner, i64)>> {
        self.pass.pass(of("sweep_kv", None), self.inner.sweep_kv(limit)).await
    }
    async fn all_kv(&self, after: Option<&OwnedPlace>, limit: usize, bytes: usize) -> StoreResult<Vec<MovedKv>> {
        self.pass.pass(of("all_kv", None), self.inner.all_kv(after, limit, bytes)).await
    }
}

#[async_trait]
impl<P: Pass> ItemStore for Through<P> {
    async fn items(
        &self,
        thread: ThreadKey,
        list: &ListName,
        range: ItemRange,
        limit: usize,
        bytes: usize,
    ) -> StoreResult<Option<ItemPage>> {
        self.pass.pass(of("items", thread), self.inner.items(thread, list, range, limit, bytes)).await
    }
    async fn removed_items(&self, thread: ThreadKey, list: &ListName, by: &Tag) -> StoreResult<Vec<Item>> {
        self.pass.pass(of("removed_items", thread), self.inner.removed_items(thread, list, by)).await
    }
    async fn change_list(&self, op: &ListOp) -> StoreResult<ListDone> {
        self.pass.pass(of("change_list", op.thread), self.inner.change_list(op)).await
    }
    async fn sweep_items(&self, limit: usize) -> StoreResult<(usize, Vec<(KvOwner, i64)>)> {
        self.pass.pass(of("sweep_items", None), self.inner.sweep_items(limit)).await
    }
    async fn listed_data(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        self.pass.pass(of("listed_data", None), self.inner.listed_data(after, limit)).await
    }
    async fn lists(&self, thread: ThreadKey) -> StoreResult<Vec<(ListName, ListState)>> {
        self.pass.pass(of("lists", thread), self.inner.lists(thread)).await
    }
    async fn put_list(
        &self,
        thread: ThreadKey,
        list: &ListName,
        state: &ListState,
        items: &[Item],
    ) -> StoreResult<bool> {
        self.pass.pass(of("put_list", thread), self.inner.put_list(thread, list, state, items)).await
    }
}

#[async_trait]
impl<P: Pass> CheckpointStore for Through<P> {
    async fn put_blobs(&self, key: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone> {
        self.pass.pass(of("put_blobs", key), self.inner.put_blobs(key, ns, blobs)).await
    }
    async fn put_checkpoint(
        &self,
        key: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone> {
        self.pass.pass(of("put_checkpoint", key), self.inner.put_checkpoint(key, checkpoint, put)).await
    }
    async fn put_writes(
        &self,
        key: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone> {
        self.pass.pass(of("put_writes", key), self.inner.put_writes(key, ns, id, writes)).await
    }
    async fn checkpoints(
        &self,
        scope: &CheckpointScope,
        from: &CheckpointPosition,
        bound: CheckpointBound,
    ) -> StoreResult<Vec<FoundCheckpoint>> {
        self.pass.pass(of("checkpoints", None), self.inner.checkpoints(scope, from, bound)).await
    }
    async fn checkpoint_parts(&self, found: &[FoundCheckpoint], bytes: usize) -> StoreResult<Vec<CheckpointParts>> {
        self.pass.pass(of("checkpoint_parts", None), self.inner.checkpoint_parts(found, bytes)).await
    }
    async fn blob(&self, key: ThreadKey, ns: &CheckpointNs, at: &ChannelAt) -> StoreResult<Option<TypedData>> {
        self.pass.pass(of("blob", key), self.inner.blob(key, ns, at)).await
    }
    async fn task_write(
        &self,
        key: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        task: &TaskId,
        idx: i64,
    ) -> StoreResult<Option<FoundWrite>> {
        self.pass.pass(of("task_write", key), self.inner.task_write(key, ns, id, task, idx)).await
    }
    async fn delete_checkpoints(
        &self,
        key: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>> {
        self.pass.pass(of("delete_checkpoints", key), self.inner.delete_checkpoints(key, which, limit)).await
    }
    async fn sweep_blobs(&self, limit: usize) -> StoreResult<Option<(KvOwner, i64)>> {
        self.pass.pass(of("sweep_blobs", None), self.inner.sweep_blobs(limit)).await
    }
    async fn checkpoints_of_run(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        run: &RunId,
        limit: usize,
    ) -> StoreResult<Vec<CheckpointPlace>> {
        self.pass.pass(of("checkpoints_of_run", None), self.inner.checkpoints_of_run(project, user, run, limit)).await
    }
}

#[async_trait]
impl<P: Pass> AgentStore for Through<P> {
    async fn put_agent(
        &self,
        project: &ProjectId,
        id: &AgentId,
        definition: &str,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<()> {
        self.pass.pass(of("put_agent", None), self.inner.put_agent(project, id, definition, entry)).await
    }
    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        self.pass.pass(of("agents", None), self.inner.agents(project)).await
    }
    async fn delete_agent(&self, project: &ProjectId, id: &AgentId, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        self.pass.pass(of("delete_agent", None), self.inner.delete_agent(project, id, entry)).await
    }
}

#[async_trait]
impl<P: Pass> BranchStore for Through<P> {
    async fn branches(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        limit: usize,
    ) -> StoreResult<Vec<Thread>> {
        self.pass.pass(of("branches", None), self.inner.branches(project, user, family, limit)).await
    }
    async fn unlisted(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<Thread>> {
        self.pass.pass(of("unlisted", None), self.inner.unlisted(project, user, limit)).await
    }
    async fn list_branch(
        &self,
        project: &ProjectId,
        user: &UserId,
        family: Family,
        key: Option<ThreadKey>,
    ) -> StoreResult<bool> {
        self.pass.pass(of("list_branch", key), self.inner.list_branch(project, user, family, key)).await
    }
}

#[async_trait]
impl<P: Pass> StagingStore for Through<P> {
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging> {
        self.pass.pass(of("stage", None), self.inner.stage(moved, part)).await
    }
    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool> {
        self.pass.pass(of("stage_more", key), self.inner.stage_more(key, part)).await
    }
    async fn publish(&self, key: ThreadKey, moved: &MovedThread, arrival: Arrival) -> StoreResult<Published> {
        self.pass.pass(of("publish", key), self.inner.publish(key, moved, arrival)).await
    }
    async fn unstage(&self, key: ThreadKey) -> StoreResult<()> {
        self.pass.pass(of("unstage", key), self.inner.unstage(key)).await
    }
}

#[async_trait]
impl<P: Pass> UsageStore for Through<P> {
    async fn usage(&self, owner: &UsageOwner) -> StoreResult<Option<Usage>> {
        self.pass.pass(of("usage", None), self.inner.usage(owner)).await
    }
    async fn add_usage(&self, added: &[(ProjectId, UserId, Usage)]) -> StoreResult<Vec<(UsageOwner, Usage)>> {
        self.pass.pass(of("add_usage", None), self.inner.add_usage(added)).await
    }
    async fn due_usage(&self, age: Duration, limit: usize) -> StoreResult<Vec<UsageOwner>> {
        self.pass.pass(of("due_usage", None), self.inner.due_usage(age, limit)).await
    }
    async fn count_usage(&self, owner: &UsageOwner) -> StoreResult<Usage> {
        self.pass.pass(of("count_usage", None), self.inner.count_usage(owner)).await
    }
}

#[async_trait]
impl<P: Pass> CredentialStore for Through<P> {
    async fn key_named(&self, project: &ProjectId, id: &KeyId) -> StoreResult<Option<ApiKey>> {
        self.pass.pass(of("key_named", None), self.inner.key_named(project, id)).await
    }
    async fn note_uses(&self, uses: &[(ProjectId, KeyId, KeyUse)]) -> StoreResult<()> {
        self.pass.pass(of("note_uses", None), self.inner.note_uses(uses)).await
    }
    async fn put_cutoff(&self, cutoff: &Cutoff, entry: Option<&AuditEntry>) -> StoreResult<()> {
        self.pass.pass(of("put_cutoff", None), self.inner.put_cutoff(cutoff, entry)).await
    }
    async fn cutoffs(&self, since: Timestamp) -> StoreResult<Vec<Cutoff>> {
        self.pass.pass(of("cutoffs", None), self.inner.cutoffs(since)).await
    }
    async fn forget_cutoffs(&self, before: Timestamp) -> StoreResult<()> {
        self.pass.pass(of("forget_cutoffs", None), self.inner.forget_cutoffs(before)).await
    }
    async fn audit_after(&self, project: &ProjectId, after: i64, limit: usize) -> StoreResult<Vec<(i64, AuditEntry)>> {
        self.pass.pass(of("audit_after", None), self.inner.audit_after(project, after, limit)).await
    }
    async fn forget_audit(&self, project: &ProjectId, before: Timestamp, limit: usize) -> StoreResult<bool> {
        self.pass.pass(of("forget_audit", None), self.inner.forget_audit(project, before, limit)).await
    }
    async fn agent_origin(&self, project: &ProjectId, id: &AgentId) -> StoreResult<Option<String>> {
        self.pass.pass(of("agent_origin", None), self.inner.agent_origin(project, id)).await
    }
    async fn put_agent_origin(
        &self,
        project: &ProjectId,
        id: &AgentId,
        origin: &str,
        seen: Option<&str>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<bool> {
        self.pass
            .pass(of("put_agent_origin", None), self.inner.put_agent_origin(project, id, origin, seen, entry))
            .await
    }
}

#[async_trait]
impl<P: Pass> IdentityStore for Through<P> {
    async fn projects(&self) -> StoreResult<Vec<StoredProject>> {
        self.pass.pass(of("projects", None), self.inner.projects()).await
    }
    async fn put_project(&self, project: &StoredProject, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        self.pass.pass(of("put_project", None), self.inner.put_project(project, entry)).await
    }
    async fn put_key(&self, key: &ApiKey, digest: &Digest, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        self.pass.pass(of("put_key", None), self.inner.put_key(key, digest, entry)).await
    }
    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>> {
        self.pass.pass(of("key", None), self.inner.key(digest)).await
    }
    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>> {
        self.pass.pass(of("keys", None), self.inner.keys(project)).await
    }
    async fn revoke_key(
        &self,
        project: &ProjectId,
        id: &KeyId,
        at: Timestamp,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Option<ApiKey>> {
        self.pass.pass(of("revoke_key", None), self.inner.revoke_key(project, id, at, entry)).await
    }
    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()> {
        self.pass.pass(of("put_ticket", None), self.inner.put_ticket(digest, bearer, until, now)).await
    }
    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool> {
        self.pass.pass(of("sweep_tickets", None), self.inner.sweep_tickets(now)).await
    }
    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>> {
        self.pass.pass(of("take_ticket", None), self.inner.take_ticket(digest, now)).await
    }
    async fn record(&self, entry: &AuditEntry) -> StoreResult<()> {
        self.pass.pass(of("record", None), self.inner.record(entry)).await
    }
    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        self.pass.pass(of("audit", None), self.inner.audit(project, before, limit)).await
    }
}

#[async_trait]
impl<P: Pass> SecretStore for Through<P> {
    fn digest_key(&self, purpose: &str) -> StoreResult<DigestKey> {
        self.inner.digest_key(purpose)
    }
    fn sealing_key(&self) -> Option<String> {
        self.inner.sealing_key()
    }
    async fn secret_forms(&self) -> StoreResult<Vec<(SecretName, SecretForm)>> {
        self.pass.pass(of("secret_forms", None), self.inner.secret_forms()).await
    }
    async fn reseal(&self) -> StoreResult<u64> {
        self.pass.pass(of("reseal", None), self.inner.reseal()).await
    }
}

#[async_trait]
impl<P: Pass> ErasureStore for Through<P> {
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<IdlePlace>,
        window: usize,
    ) -> StoreResult<IdlePage> {
        self.pass.pass(of("idle_threads", None), self.inner.idle_threads(project, before, after, window)).await
    }
    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint> {
        self.pass.pass(of("footprint", None), self.inner.footprint(project, user)).await
    }
    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        self.pass.pass(of("forget_user", None), self.inner.forget_user(project, user)).await
    }
}
