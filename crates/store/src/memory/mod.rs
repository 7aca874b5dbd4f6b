//! The reference back-end: all data behind one mutex. Short enough to read as the specification of the port.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use threadline_core::{
    AgentId, Annotation, ClientId, Clock, CreatedThread, DriverFence, Epoch, FeedChange, FeedCursor, FeedEntry,
    FeedHead, Fence, Generation, LastRun, ListOrder, ListPosition, LogHistory, LogSlice, NewEvents, NewThread, Node,
    NodeId, OpenInterrupt, PriorEpoch, ProjectId, QueueState, ReadFrom, Run, RunId, RunStatus, Seq, Terminal, Thread,
    ThreadId, ThreadKey, ThreadPatch, Timestamp, ToolCallId, UserId, WriteFence, interrupt,
    limits::{
        CLOCK_STEP, PACK_FIRST_LOOK, PAGE_BYTES, REAP_CLAIM, RELEASE_GRACE, RENEW_CHUNK, REQUEST_KEPT, STOP_GRACE,
    },
};

use super::{
    ActiveHead, ActiveRuns, Append, Appended, Claimed, CloseOutcome, CloseWhen, Closing, Committed, Displaced, Due,
    FeedImage, FeedPage, FeedStore, GenerationRecord, Head, HeartbeatRequest, JobKind, Lineage, LineageFence,
    ListThreads, LogPage, LogStore, Named, Packing, Purging, Renewal, Renewed, RetentionHold, RunStore, Snapshot,
    StartOutcome, StartRun, StopOutcome, StoreClock, StoreResult, ThreadPage, ThreadStore, new_run::NewRun,
    segment::LogRow,
};

mod attempts;
mod beside;
mod branches;
mod checkpoint_table;
mod checkpoints;
mod credentials;
mod driven;
mod holds;
mod identity;
mod ids;
mod interrupts;
mod item_table;
mod items;
mod job_table;
mod jobs;
mod kv;
mod kv_table;
mod lineage;
mod nodes;
mod queue;
mod queue_row;
mod staging;
mod status;
mod stream_table;
mod streams;
mod sums;
mod tool_claims;
mod transfer;
mod trash;
mod turns;
mod usage;

pub use lineage::MemoryImage;

/// A store in memory. All data is lost with the process.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    known: StoreClock,
    state: Mutex<State>,
    fence: LineageFence,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Clock::default())
    }
}

#[derive(Debug, Clone)]
struct State {
    lineage: Lineage,
    generations: Vec<GenerationRecord>,
    last_key: i64,
    ids: ids::Ids,
    threads: BTreeMap<ThreadKey, Row>,
    feeds: HashMap<(ProjectId, UserId), Feed>,
    agents: BTreeMap<(ProjectId, AgentId), String>,
    /// Origins of agents, also of deleted ones.
    agent_origins: BTreeMap<(ProjectId, AgentId), String>,
    staged: HashMap<ThreadKey, staging::Staged>,
    holds: BTreeMap<ProjectId, RetentionHold>,
    /// Rows in the trash.
    trash: BTreeMap<ThreadKey, Row>,
    /// Deleted threads that were created with an idempotency key, with the time of the deletion.
    deleted_requests: HashMap<(ProjectId, ThreadId), Timestamp>,
    identity: identity::Identity,
    nodes: BTreeMap<NodeId, Node>,
    jobs: job_table::Jobs,
    usage: sums::Sums,
    kv: kv_table::Entries,
    streams: stream_table::Streams,
    /// Streams that an import has not published.
    staged_streams: stream_table::Streams,
}

/// A thread with its head, its runs and its log.
#[derive(Debug, Clone)]
struct Row {
    thread: Thread,
    /// True if the thread was created with an idempotency key.
    requested: bool,
    /// Time at which the thread was taken back from the trash.
    restored_at: Option<Timestamp>,
    /// In the trash: the time since which it is there, and that of its purge.
    trashed: Option<(Timestamp, Timestamp)>,
    generation: Generation,
    prior: Option<PriorEpoch>,
    fed_version: i64,
    fence: Fence,
    /// Fence of the newest run's driver.
    driver: DriverFence,
    lease: Duration,
    /// Time of the newest events.
    newest: Option<Timestamp>,
    /// Time at which the reaper looks at the active run.
    check_at: Timestamp,
    runs: BTreeMap<Fence, Run>,
    /// Turn of the active run, if the server drives it.
    turn: Option<driven::Driven>,
    /// Turn of the active run, if its producer writes it.
    pushed: Option<driven::Pushed>,
    log: Vec<LogRow>,
    /// Seq up to which sealing and packing have decided.
    decided: Seq,
    snapshots: BTreeMap<Seq, Snapshot>,
    annotations: Vec<Annotation>,
    /// Claims of tool calls: for each its holder, and the end of the lease.
    tool_claims: BTreeMap<ToolCallId, (ClientId, Timestamp)>,
    /// Open interrupts, see [`threadline_core::interrupt::after`].
    interrupts: Option<String>,
    queue: queue_row::QueueRow,
    lists: item_table::Lists,
    checkpoints: checkpoint_table::Checkpoints,
}

#[derive(Debug, Clone, Default)]
struct Feed {
    head: FeedHead,
    entries: BTreeMap<u64, (ThreadId, Option<ThreadKey>)>,
    newest: HashMap<ThreadId, u64>,
    deleted: BTreeMap<ThreadKey, ThreadId>,
}

impl MemoryStore {
    /// Creates an empty store that judges leases by `clock`.
    pub fn new(clock: Clock) -> Self {
        let state = State::new(clock.now());
        let fence = LineageFence::new(state.lineage);
        Self { known: StoreClock::new(clock.clone()), clock, state: Mutex::new(state), fence }
    }

    /// Time by which leases are judged: a clock that jumps ahead ends no run.
    fn judged(&self, now: Timestamp) -> Timestamp {
        now.min(self.known.bound())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// Threads of all users that have an id.
    fn named(&self, project: &ProjectId, id: &ThreadId) -> Vec<&Row> {
        self.ids.all(project, id).filter_map(|key| self.threads.get(&key)).collect()
    }

    /// The thread that a user has under an id.
    fn own(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> Option<&Row> {
        self.threads.get(&self.ids.of(project, user, id)?)
    }

    /// The thread that keeps a user from having another one under an id: the user's own, or the one that has claimed the
    /// id, if the new one is to claim it too.
    fn taken(&self, project: &ProjectId, user: &UserId, id: &ThreadId, claims: bool) -> Option<&Row> {
        let claimed = || self.named(project, id).into_iter().find(|row| claims && row.thread.claimed);
        self.own(project, user, id).or_else(claimed)
    }
}

impl Row {
    /// Creates the row of a thread without runs.
    fn new(thread: Thread, generation: Generation) -> Self {
        Self {
            thread,
            requested: false,
            restored_at: None,
            trashed: None,
            generation,
            prior: None,
            fed_version: 0,
            fence: Fence(0),
            driver: DriverFence::NONE,
            lease: Duration::ZERO,
            newest: None,
            check_at: Timestamp(0),
            runs: BTreeMap::new(),
            turn: None,
            pushed: None,
            log: Vec::new(),
            decided: 0,
            snapshots: BTreeMap::new(),
            annotations: Vec::new(),
            tool_claims: BTreeMap::new(),
            interrupts: None,
            queue: queue_row::QueueRow::default(),
            lists: Default::default(),
            checkpoints: Default::default(),
        }
    }

    fn active(&self) -> Option<&Run> {
        self.runs.get(&self.fence).filter(|run| run.status.is_active())
    }

    fn head(&self) -> Head {
        let active = self.active().map(|run| ActiveHead {
            lease_until: run.lease_until.unwrap_or(Timestamp(0)),
            stop_requested_at: run.stop_requested_at,
            finishing: run.status == RunStatus::Finishing,
            producer_seq: run.producer_seq,
        });
        let Thread { key, epoch, tail, .. } = self.thread;
        let (fence, driver, generation, prior) = (self.fence, self.driver, self.generation, self.prior);
        Head { key, epoch, tail, fence, driver, active, generation, prior, queue: self.queue.state() }
    }

    /// Notes the generation of a change of the head: the first one in a generation gives the log another epoch.
    fn enter(&mut self, lineage: Lineage) {
        let LogHistory { epoch, generation, prior } =
            self.head().history().entering(lineage.generation, lineage.nonce, self.thread.tail);
        (self.thread.epoch, self.generation, self.prior) = (epoch, generation, prior);
    }

    fn write_fence(&self) -> WriteFence {
        WriteFence { run: self.fence, driver: self.driver }
    }

    fn snapshot(&self) -> Thread {
        let last_run = self.runs.values().next_back().map(LastRun::from);
        let open_interrupts = self.open_interrupts();
        Thread {
            active_run: self.active().cloned(),
            last_run,
            open_interrupts,
            queue: self.queue.state(),
            ..self.thread.clone()
        }
    }

    /// Appends events of the newest run to the log.
    fn push(&mut self, events: &NewEvents, now: Timestamp) -> LogSlice {
        let Some(run) = self.runs.get_mut(&self.fence) else { return LogSlice::default() };
        let at = now.in_log_after(self.newest);
        self.newest = Some(at);
        let slice = LogSlice::of(events, self.thread.tail + 1, &run.id, at);
        self.thread.tail += events.count() as u64;
        run.producer_seq += events.count() as u64;
        self.log.extend(slice.0.iter().map(|batch| LogRow {
            first_seq: batch.first_seq,
            last_seq: batch.last_seq,
            at,
            run: Some(batch.run.clone()),
            body: batch.body.clone(),
        }));
        slice
    }

    /// Begins a run in the free thread: its record, its fences, and the thread's row.
    fn begin(&mut self, new: NewRun, lineage: Lineage, now: Timestamp) -> Run {
        self.fence = Fence(self.fence.0.max(lineage.generation.fence_floor()) + 1);
        self.driver = lineage.generation.driver_fence(self.fence, new.driven);
        (self.lease, self.check_at) = (new.lease, now.plus(new.lease));
        let opened = self.thread.tail + new.events + 1;
        self.pushed = (!new.driven).then(|| driven::Pushed {
            attempt_id: new.attempt_id.clone(),
            displaced: Displaced::default(),
            opened,
        });
        let run = new.begun(self.fence, self.thread.tail, now);
        self.thread.agent = self.thread.agent.take().or_else(|| run.agent.clone());
        self.runs.insert(self.fence, run.clone());
        self.touch_run(now);
        run
    }

    /// Ends the newest run: its record, and the thread's row.
    fn end(&mut self, status: RunStatus, code: Option<String>, message: Option<String>, now: Timestamp) {
        if let Some(run) = self.runs.get_mut(&self.fence) {
            (run.status, run.error_code, run.error_message) = (status, code, message);
            (run.ended_at, run.lease_until) = (Some(now), None);
        }
        (self.turn, self.pushed) = (None, None);
        self.touch_run(now);
    }

    fn touch_run(&mut self, now: Timestamp) {
        self.thread.last_run_at = Some(now);
        self.thread.version += 1;
    }

    /// Ends the run with the status of its own terminal event.
    fn end_by(&mut self, terminal: &Terminal, now: Timestamp) {
        let stopped = self.active().is_some_and(|run| run.stop_requested_at.is_some());
        let (status, code, message) = terminal.end(stopped);
        self.end(status, code, message, now);
        self.note_usage(Some(terminal));
    }

    /// Notes what the newest run has used, as its terminal event says.
    fn note_usage(&mut self, terminal: Option<&Terminal>) {
        if let Some(run) = self.runs.get_mut(&self.fence) {
            run.usage = terminal.and_then(Terminal::usage).map(str::to_owned);
        }
    }

    fn close(&mut self, closing: &Closing, now: Timestamp) -> LogSlice {
        let slice = closing.events.as_ref().map(|events| self.push(events, now)).unwrap_or_default();
        self.end(closing.status, closing.error_code.clone(), closing.error_message.clone(), now);
        self.note_interrupts(None);
        slice
    }

    fn matches(&self, closing: &Closing) -> bool {
        self.write_fence() == closing.fence
            && self.thread.tail == closing.tail
            && self.has(closing.epoch)
            && self.active().is_some()
    }

    /// True if the log has this epoch, or if none is named.
    fn has(&self, epoch: Option<Epoch>) -> bool {
        epoch.is_none_or(|epoch| epoch == self.thread.epoch)
    }

    /// True if the log has this epoch or had it before, or if none is named.
    fn has_or_had(&self, epoch: Option<Epoch>) -> bool {
        self.has(epoch) || self.prior.map(|prior| prior.epoch) == epoch
    }

    fn is_lapsed(&self, now: Timestamp) -> bool {
        self.active()
            .is_some_and(|run| run.status == RunStatus::Finishing || run.lease_until.is_none_or(|until| until <= now))
    }

    /// Time at which the active run is due: the end of its lease, or of its stop's grace.
    fn due_at(&self) -> Timestamp {
        let lease = self.active().and_then(|run| run.lease_until).unwrap_or(Timestamp(0));
        let stop = self.active().and_then(|run| run.stop_requested_at);
        stop.map_or(lease, |asked| asked.plus(STOP_GRACE).min(lease))
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.active().is_some() && self.due_at() <= now
    }

    /// Gives the active run a full lease if its lease is wrong.
    fn renew(&mut self, which: Renewal, now: Timestamp) -> bool {
        let lease = self.lease;
        let Some(run) = self.runs.get_mut(&self.fence) else { return false };
        let lease = if run.status == RunStatus::Finishing { lease.min(RELEASE_GRACE) } else { lease };
        let (until, full) = (run.lease_until.unwrap_or(now), now.plus(lease));
        let late_stop = run.stop_requested_at.is_some_and(|asked| asked > now.plus(CLOCK_STEP));
        let short = which == Renewal::All && until < full.minus(CLOCK_STEP);
        if until <= full.plus(CLOCK_STEP) && !late_stop && !short {
            return false;
        }
        run.lease_until = Some(full);
        run.stop_requested_at =
            run.stop_requested_at.map(|asked| if which == Renewal::All { now } else { asked.min(now) });
        self.check_at = self.due_at();
        true
    }

    /// Has the reaper look at the active run at this time, if that is sooner.
    fn look_at(&mut self, time: Timestamp) {
        self.check_at = self.check_at.min(time);
    }

    fn sort_at(&self, order: ListOrder) -> Timestamp {
        match order {
            ListOrder::Created => self.thread.created_at,
            ListOrder::Recent => self.thread.last_run_at.unwrap_or(self.thread.updated_at),
        }
    }
}

#[async_trait]
impl ThreadStore for MemoryStore {
    async fn create_thread(&self, new: NewThread) -> StoreResult<CreatedThread> {
        let now = self.clock.now();
        let state = &mut *self.state();
        if let Some(row) = state.taken(&new.project, &new.user, &new.id, new.claimed) {
            return Ok(CreatedThread { thread: row.snapshot(), created: false });
        }
        state.last_key += 1;
        let key = ThreadKey(state.last_key);
        let requested = new.request.is_some();
        let thread = new.made(key, Epoch::generate(), now);
        state.ids.insert(&thread);
        state.threads.insert(key, Row { requested, ..Row::new(thread.clone(), state.lineage.generation) });
        Ok(CreatedThread { thread, created: true })
    }

    async fn was_request_deleted(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<bool> {
        Ok(self.state().deleted_requests.contains_key(&(project.clone(), id.clone())))
    }

    async fn thread_of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<Option<Thread>> {
        Ok(self.state().own(project, user, id).map(Row::snapshot))
    }

    async fn thread_named(&self, project: &ProjectId, id: &ThreadId) -> StoreResult<Named> {
        Ok(Named::among(self.state().named(project, id).into_iter().map(Row::snapshot).collect()))
    }

    async fn list_threads(&self, list: ListThreads) -> StoreResult<ThreadPage> {
        let state = self.state();
        let feed_cursor = state
            .feeds
            .get(&(list.project.clone(), list.user.clone()))
            .map_or(FeedCursor::START, |feed| feed.head.cursor());
        let mut rows: Vec<(Timestamp, &Row)> = state
            .threads
            .values()
            .filter(|row| row.thread.project == list.project && row.thread.user == list.user)
            .filter(|row| row.thread.branch.listed)
            .filter(|row| list.include_archived || !row.thread.archived)
            .filter(|row| list.agent.is_none() || row.thread.agent == list.agent)
            .filter(|row| list.status.is_none_or(|status| row.snapshot().status() == status))
            .map(|row| (row.sort_at(list.order), row))
            .collect();
        let before = |a: (Timestamp, &ThreadId), b: (Timestamp, &ThreadId)| match list.order {
            ListOrder::Recent => b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)),
            ListOrder::Created => a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)),
        };
        rows.sort_by(|a, b| before((a.0, &a.1.thread.id), (b.0, &b.1.thread.id)));
        if let Some(after) = &list.after {
            rows.retain(|row| before((after.at, &after.id), (row.0, &row.1.thread.id)).is_lt());
        }
        let more = rows.len() > list.limit;
        rows.truncate(list.limit);
        let next = rows.last().filter(|_| more).map(|row| ListPosition { at: row.0, id: row.1.thread.id.clone() });
        Ok(ThreadPage { threads: rows.into_iter().map(|row| row.1.snapshot()).collect(), next, feed_cursor })
    }

    async fn open_interrupts(&self, keys: &[ThreadKey]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>> {
        let state = self.state();
        let rows = keys.iter().filter_map(|key| state.threads.get(key));
        Ok(rows.filter_map(|row| Some((row.thread.key, interrupt::stored(row.interrupts.as_deref()?)?))).collect())
    }

    async fn edit_thread(
        &self,
        key: ThreadKey,
        version: i64,
        patch: ThreadPatch,
        epoch: Option<Epoch>,
    ) -> StoreResult<Option<Thread>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let row = state.threads.get_mut(&key).filter(|row| row.thread.version == version && row.has_or_had(epoch));
        let Some(row) = row else { return Ok(None) };
        if let Some(name) = patch.name {
            (row.thread.name, row.thread.name_source) = name.unzip();
        }
        if let Some(metadata) = patch.metadata {
            row.thread.metadata = metadata;
        }
        row.thread.archived = patch.archived.unwrap_or(row.thread.archived);
        row.thread.updated_at = now;
        row.thread.version += 1;
        Ok(Some(row.snapshot()))
    }

    async fn mark_read(&self, key: ThreadKey, seq: Seq, epoch: Option<Epoch>) -> StoreResult<Option<Thread>> {
        let state = &mut *self.state();
        let row = state.threads.get_mut(&key).filter(|row| seq <= row.thread.tail && row.has(epoch));
        let Some(row) = row else { return Ok(None) };
        if seq > row.thread.read_seq {
            row.thread.read_seq = seq;
            row.thread.version += 1;
        }
        Ok(Some(row.snapshot()))
    }

    async fn delete_thread(&self, key: ThreadKey, epoch: Option<Epoch>) -> StoreResult<bool> {
        let now = self.clock.now();
        let state = &mut *self.state();
        if !state.threads.get(&key).is_some_and(|row| row.has_or_had(epoch)) {
            return Ok(false);
        }
        let Some(row) = state.threads.remove(&key) else { return Ok(false) };
        state.ids.remove(&row.thread);
        // The rows are gone at once.
        state.charge(&row.thread, -row.usage());
        state.drop_kv_of(key);
        let Thread { project, id, user, .. } = row.thread;
        if row.requested {
            state.deleted_requests.insert((project.clone(), id.clone()), self.clock.now());
        }
        state.feeds.entry((project, user)).or_default().deleted.insert(key, id);
        state.jobs.put_anew(JobKind::Purge, key, now);
        Ok(true)
    }

    async fn forget_requests(&self) -> StoreResult<()> {
        let now = self.clock.now();
        self.state().deleted_requests.retain(|_, at| at.plus(REQUEST_KEPT) > now);
        Ok(())
    }

    async fn purge(&self, key: ThreadKey, _rows: usize) -> StoreResult<Purging> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let left = state.staged.get(&key).map_or(Duration::ZERO, |staged| staged.left(now));
        if !left.is_zero() {
            return Ok(Purging::Staged(left));
        }
        if let Some(trashed) = state.trash.get(&key) {
            return Ok(Purging::Trashed(trashed.left_in_trash(now)));
        }
        state.staged.remove(&key);
        if !state.threads.contains_key(&key) {
            state.jobs.forget(key);
        }
        Ok(Purging::Done)
    }
}

#[async_trait]
impl RunStore for MemoryStore {
    async fn start(&self, start: StartRun) -> StoreResult<StartOutcome> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&start.key) else { return Ok(StartOutcome::ThreadGone) };
        if !row.has(start.epoch) {
            return Ok(StartOutcome::OtherEpoch(row.head()));
        }
        if let Some(run) = row.runs.values().find(|run| run.id == start.run) {
            return Ok(StartOutcome::Exists(run.clone(), row.head()));
        }
        if row.queue.has(&start.run) {
            return Ok(StartOutcome::Queued(row.head()));
        }
        let (mut slice, mut closed) = (LogSlice::default(), false);
        let moves = !start.past_queue && row.queue.state().moves();
        if let Some(active) = row.active().cloned() {
            if !row.is_lapsed(self.judged(now)) {
                return Ok(StartOutcome::RunActive(active, row.head()));
            }
            let Some(closing) = start.closing.filter(|closing| row.matches(closing)) else {
                return Ok(StartOutcome::LeaseExpired(active, row.head()));
            };
            if start.at.is_some_and(|at| at != row.thread.tail) {
                return Ok(StartOutcome::TailMismatch(row.head()));
            }
            if moves {
                return Ok(StartOutcome::QueueMoves(row.head()));
            }
            row.enter(state.lineage);
            slice.0.extend(row.close(&closing, now).0);
            closed = true;
        } else if start.at.is_some_and(|at| at != row.thread.tail) {
            return Ok(StartOutcome::TailMismatch(row.head()));
        } else if moves {
            return Ok(StartOutcome::QueueMoves(row.head()));
        }
        row.enter(state.lineage);
        let new = NewRun {
            driven: start.turn.is_some(),
            id: start.run,
            attempt_id: start.attempt_id,
            agent: start.agent,
            events: start.events.as_ref().map_or(0, |events| events.count() as u64),
            author: start.author,
            asked_by: start.asked_by,
            lease: start.lease,
        };
        row.begin(new, state.lineage, now);
        row.turn = start.turn.map(|turn| driven::Driven::new(turn, row.thread.tail + 1));
        if let Some(events) = &start.events {
            slice.0.extend(row.push(events, now).0);
            row.attempt_begins();
            if let Some(terminal) = events.terminal() {
                row.end_by(terminal, now);
            }
            row.note_interrupts(Some(events));
        }
        state.jobs.put(JobKind::Pack, start.key, now.plus(PACK_FIRST_LOOK));
        if closed || row.passed_segment() {
            state.jobs.put(JobKind::Seal, start.key, now);
        }
        let run = row.runs[&row.fence].clone();
        Ok(StartOutcome::Started(Committed { run, head: row.head(), slice }))
    }

    async fn close(&self, key: ThreadKey, closing: Closing, when: CloseWhen) -> StoreResult<CloseOutcome> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&key) else { return Ok(CloseOutcome::Gone) };
        if !row.matches(&closing)
            || row.queue.state().queued > 0
            || (when == CloseWhen::IfDue && !row.is_due(self.judged(now)))
        {
            return Ok(CloseOutcome::Missed);
        }
        row.enter(state.lineage);
        let slice = row.close(&closing, now);
        if row.passed_segment() {
            state.jobs.put(JobKind::Seal, key, now);
        }
        let run = row.runs[&row.fence].clone();
        Ok(CloseOutcome::Closed(Box::new(Committed { run, head: row.head(), slice })))
    }

    async fn heartbeat(&self, beats: &[HeartbeatRequest]) -> StoreResult<Vec<Option<ActiveHead>>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let mut answers = Vec::with_capacity(beats.len());
        for beat in beats {
            let row = state.threads.get_mut(&beat.key);
            let row =
                row.filter(|row| row.write_fence() == beat.fence && row.has(beat.epoch) && row.active().is_some());
            answers.push(row.and_then(|row| {
                row.enter(state.lineage);
                row.lease = beat.lease.unwrap_or(row.lease);
                let until = now.plus(row.lease);
                let run = row.runs.get_mut(&beat.fence.run)?;
                // A producer may request a shorter lease; without one, a lease is only ever extended.
                run.lease_until = if beat.lease.is_some() { Some(until) } else { run.lease_until.max(Some(until)) };
                if beat.lease.is_some() {
                    row.look_at(until);
                }
                row.head().active
            }));
        }
        Ok(answers)
    }

    async fn request_stop(
        &self,
        key: ThreadKey,
        run: &RunId,
        epoch: Option<Epoch>,
        holds: bool,
    ) -> StoreResult<StopOutcome> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&key) else { return Ok(StopOutcome::Gone) };
        if !row.has(epoch) {
            return Ok(StopOutcome::OtherEpoch(row.head()));
        }
        let Some(run) = row.runs.values_mut().find(|candidate| candidate.id == *run) else {
            return Ok(StopOutcome::NoRun);
        };
        if !run.status.is_active() {
            return Ok(StopOutcome::Ended(run.clone()));
        }
        let first = run.stop_requested_at.is_none();
        run.stop_requested_at.get_or_insert(now);
        let run = run.clone();
        if first {
            row.thread.version += 1;
            row.queue.stop(holds);
            row.enter(state.lineage);
            row.look_at(now.plus(STOP_GRACE));
        }
        Ok(StopOutcome::Asked(run, row.head()))
    }

    async fn release(&self, key: ThreadKey, fence: Fence, epoch: Option<Epoch>) -> StoreResult<bool> {
        let until = self.clock.now().plus(RELEASE_GRACE);
        let state = &mut *self.state();
        let row = state.threads.get_mut(&key);
        let row = row.filter(|row| row.write_fence() == fence.into() && row.has(epoch) && row.active().is_some());
        let Some(row) = row else { return Ok(false) };
        if let Some(run) = row.runs.get_mut(&fence) {
            run.status = RunStatus::Finishing;
            run.lease_until = run.lease_until.min(Some(until));
        }
        row.look_at(row.active().and_then(|run| run.lease_until).unwrap_or(until));
        row.thread.version += 1;
        row.enter(state.lineage);
        Ok(true)
    }

    async fn claim_due(&self, limit: usize) -> StoreResult<Claimed> {
        let now = self.judged(self.clock.now());
        let state = &mut *self.state();
        let waiting = state.threads.values_mut().filter(|row| row.active().is_some() && row.check_at <= now);
        let mut waiting: Vec<&mut Row> = waiting.collect();
        waiting.sort_by_key(|row| (row.check_at, row.thread.key));
        waiting.truncate(limit);
        let mut claimed = Claimed { due: Vec::new(), more: waiting.len() >= limit };
        for row in waiting {
            let until = row.due_at();
            row.check_at = if until <= now { now.plus(REAP_CLAIM) } else { until };
            if until <= now {
                claimed.due.push(Due {
                    key: row.thread.key,
                    project: row.thread.project.clone(),
                    user: row.thread.user.clone(),
                    thread: row.thread.id.clone(),
                });
            }
        }
        Ok(claimed)
    }

    async fn renew_leases(&self, which: Renewal, after: Option<ThreadKey>) -> StoreResult<Renewed> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let page = state.threads.values_mut().filter(|row| row.active().is_some() && Some(row.thread.key) > after);
        let (mut renewed, mut seen) = (Renewed::default(), 0);
        for row in page.take(RENEW_CHUNK) {
            (seen, renewed.next) = (seen + 1, Some(row.thread.key));
            if row.renew(which, now) {
                row.enter(state.lineage);
                renewed.leases += 1;
            }
        }
        renewed.next = renewed.next.filter(|_| seen >= RENEW_CHUNK);
        Ok(renewed)
    }

    async fn active_runs(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        bound: ActiveRuns,
    ) -> StoreResult<ActiveRuns> {
        let state = self.state();
        let active = state.threads.values().filter(|row| row.thread.project == *project && row.active().is_some());
        let all = active.fold(ActiveRuns::default(), |count, row| ActiveRuns {
            project: count.project + 1,
            user: count.user + u64::from(Some(&row.thread.user) == user),
        });
        Ok(ActiveRuns { project: all.project.min(bound.project), user: all.user.min(bound.user) })
    }

    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        let state = self.state();
        Ok(state.threads.get(&key).and_then(|row| row.runs.values().find(|candidate| candidate.id == *run)).cloned())
    }

    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        let state = self.state();
        let Some(row) = state.threads.get(&key) else { return Ok(Vec::new()) };
        let runs = row.runs.values().rev().filter(|run| before.is_none_or(|before| run.fence < before));
        Ok(runs.take(limit).cloned().collect())
    }
}

#[async_trait]
impl LogStore for MemoryStore {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let mut answers = Vec::with_capacity(batch.len());
        for append in batch {
            let row = state.threads.get_mut(&append.key).filter(|row| {
                row.write_fence() == append.fence
                    && row.has(append.epoch)
                    && (append.events.terminal().is_none() || row.queue.state().queued == 0)
                    && row.active().is_some_and(|run| {
                        !run.stop_overdue(now) && append.producer_seq.is_none_or(|seq| seq == run.producer_seq + 1)
                    })
            });
            answers.push(row.and_then(|row| {
                let first_seq = row.thread.tail + 1;
                row.enter(state.lineage);
                row.push(&append.events, now);
                if let Some(terminal) = append.events.terminal() {
                    row.end_by(terminal, now);
                    if row.passed_segment() {
                        state.jobs.put(JobKind::Seal, append.key, now);
                    }
                } else {
                    let until = now.plus(row.lease);
                    let run = row.runs.get_mut(&append.fence.run)?;
                    run.lease_until = run.lease_until.max(Some(until));
                }
                row.note_interrupts(Some(&append.events));
                let run = row.runs.get(&append.fence.run)?;
                Some(Appended {
                    first_seq,
                    at: row.newest.unwrap_or(now),
                    run: run.id.clone(),
                    head: Head { queue: QueueState::default(), ..row.head() },
                    producer_seq: run.producer_seq,
                })
            }));
        }
        Ok(answers)
    }

    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        let state = self.state();
        let Some(row) = state.threads.get(&key) else { return Ok(None) };
        let mut slice = LogSlice::default();
        let full = |slice: &LogSlice| slice.count() >= max_events as u64 || slice.bytes() >= PAGE_BYTES;
        match from {
            ReadFrom::After(after) => {
                for log in row.log.iter().filter(|log| log.last_seq > after) {
                    let batches = log.clone().unpack()?;
                    slice.0.extend(batches.iter().filter_map(|batch| batch.between(after, Seq::MAX)));
                    if full(&slice) {
                        break;
                    }
                }
                let end = slice.first_seq().unwrap_or(0).saturating_add(max_events as u64);
                slice = slice.between(0, end);
            }
            ReadFrom::Before(before) => {
                for log in row.log.iter().rev().filter(|log| log.first_seq < before) {
                    let mut batches = log.clone().unpack()?;
                    batches.append(&mut slice.0);
                    slice = LogSlice(batches).between(0, before);
                    if full(&slice) {
                        break;
                    }
                }
                let start = slice.last_seq().unwrap_or(0).saturating_sub(max_events as u64);
                slice = slice.between(start, Seq::MAX);
            }
        }
        Ok(Some(LogPage { head: row.head(), slice }))
    }

    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        let state = self.state();
        Ok(keys.iter().filter_map(|key| state.threads.get(key)).map(Row::head).collect())
    }

    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        let state = &mut *self.state();
        state.threads.get_mut(&key).map_or(Ok(false), Row::seal)
    }

    async fn pack(&self, key: ThreadKey, idle: Duration) -> StoreResult<Packing> {
        let now = self.clock.now();
        let state = &mut *self.state();
        state.threads.get_mut(&key).map_or(Ok(Packing::Gone), |row| row.pack(now, idle))
    }
}

#[async_trait]
impl FeedStore for MemoryStore {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedHead> {
        let state = &mut *self.state();
        let feed = state.feeds.entry((project.clone(), user.clone())).or_default();
        for id in std::mem::take(&mut feed.deleted).into_values() {
            feed.put(id, None, state.lineage);
        }
        let mut dirty: Vec<&mut Row> = state
            .threads
            .values_mut()
            .filter(|row| row.thread.project == *project && row.thread.user == *user)
            .filter(|row| row.thread.version > row.fed_version)
            .collect();
        dirty.sort_by_key(|row| row.thread.key);
        for row in dirty {
            row.fed_version = row.thread.version;
            feed.put(row.thread.id.clone(), Some(row.thread.key), state.lineage);
        }
        Ok(feed.head)
    }

    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        let state = self.state();
        let Some(feed) = state.feeds.get(&(project.clone(), user.clone())) else {
            return Ok(FeedPage { entries: Vec::new(), head: FeedHead::EMPTY });
        };
        let entries = feed.entries.range(after.saturating_add(1)..).take(limit).map(|(cursor, (id, key))| FeedEntry {
            cursor: *cursor,
            thread_id: id.clone(),
            change: match key.and_then(|key| state.threads.get(&key)) {
                Some(row) if row.thread.branch.listed => FeedChange::Upsert(Box::new(row.snapshot())),
                _ => FeedChange::Delete,
            },
        });
        Ok(FeedPage { entries: entries.collect(), head: feed.head })
    }

    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        let state = self.state();
        let feed = state.feeds.get(&(project.clone(), user.clone()));
        let fed = feed.and_then(|feed| feed.entries.get(feed.newest.get(id)?));
        Ok(state.own(project, user, id).is_none()
            && (feed.is_some_and(|feed| feed.deleted.iter().any(|(_, deleted)| deleted == id))
                || fed.is_some_and(|(_, key)| key.is_none())))
    }

    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<FeedHead>> {
        let state = self.state();
        Ok(feeds.iter().map(|feed| state.feeds.get(feed).map_or(FeedHead::EMPTY, |feed| feed.head)).collect())
    }

    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        let state = self.state();
        let mut users: Vec<_> = state
            .threads
            .values()
            .filter(|row| row.thread.version > row.fed_version)
            .map(|row| (row.thread.project.clone(), row.thread.user.clone()))
            .chain(state.feeds.iter().filter(|(_, feed)| !feed.deleted.is_empty()).map(|(user, _)| user.clone()))
            .collect();
        users.sort();
        users.dedup();
        users.truncate(limit);
        Ok(users)
    }
}

impl Feed {
    fn image(&self) -> FeedImage {
        let entries = self.entries.iter().map(|(pos, (id, _))| (*pos, id.clone()));
        FeedImage { head: self.head.position, epoch: self.head.history.epoch, entries: entries.collect() }
    }

    /// Gives a thread the next position; its older entry is removed.
    fn put(&mut self, id: ThreadId, key: Option<ThreadKey>, lineage: Lineage) {
        self.head = self.head.entering(lineage.generation, lineage.nonce);
        self.head.position += 1;
        if let Some(older) = self.newest.insert(id.clone(), self.head.position) {
            self.entries.remove(&older);
        }
        self.entries.insert(self.head.position, (id, key));
    }
}
