//! Runs and their leases. A start or a close reads the head and changes it inside one transaction.

use std::collections::HashMap;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{SqliteConnection, query};
use threadline_core::{
    Epoch, Fence, LogSlice, NewEvents, ProjectId, Run, RunId, ThreadKey, Timestamp, UserId,
    limits::{PACK_FIRST_LOOK, REAP_CLAIM, RELEASE_GRACE, STOP_GRACE},
};

use super::{
    SqliteStore,
    append::{self, Entry},
    begin::begin,
    corrupt,
    fetch::{self, Work},
    leases,
    rows::{self, Columns, text_of},
    turns,
};
use crate::{
    ActiveHead, ActiveRuns, Claimed, CloseOutcome, CloseWhen, Closing, Committed, Head, HeartbeatRequest, Renewal,
    Renewed, RunStore, StartOutcome, StartRun, StopOutcome, StoreResult,
    new_run::NewRun,
    sql::{self, append::End, pages},
};

const BY_ID: &str = text_of(include_str!("../../queries/sqlite/run_by_id.sql"));
pub(super) const ACTIVE: &str = text_of(include_str!("../../queries/sqlite/active_run.sql"));
const RUNS: &str = text_of(include_str!("../../queries/sqlite/runs.sql"));
pub(super) const HEARTBEAT: &str = text_of(include_str!("../../queries/sqlite/heartbeat.sql"));
const STOP: &str = text_of(include_str!("../../queries/sqlite/stop.sql"));
const QUEUED: &str = "SELECT 1 FROM turns WHERE key = ?1 AND run = ?2 AND place IS NOT NULL";
const RELEASE: &str = text_of(include_str!("../../queries/sqlite/release.sql"));
pub(super) const CLAIM_DUE: &str = text_of(include_str!("../../queries/sqlite/claim_due.sql"));
pub(super) const WAITING: &str = "SELECT key FROM turns WHERE place IS NULL AND check_at <= ?1 LIMIT 1";
pub(super) const ACTIVE_RUNS: &str = text_of(include_str!("../../queries/sqlite/active_runs.sql"));

// The statement of a start has it as a literal.
const _: () = assert!(PACK_FIRST_LOOK.as_millis() == 660_000);

/// A head, a run of it, and the time of the newest events.
pub(super) type Look = (Head, Option<Run>, Option<Timestamp>);

pub(super) async fn look(connection: &mut SqliteConnection, text: fetch::Statement<'_>) -> Work<Option<Look>> {
    let Some(row) = fetch::row(connection, text).await? else { return Ok(None) };
    let mut columns = Columns::new(&row);
    let Some((head, _)) = columns.head()? else { return Ok(None) };
    let run = columns.run(&head)?;
    Ok(Some((head, run, columns.maybe_time()?)))
}

/// True if the log has this epoch, or if none is named.
fn has(head: &Head, epoch: Option<Epoch>) -> bool {
    epoch.is_none_or(|epoch| epoch == head.epoch)
}

pub(super) fn matches(head: &Head, closing: &Closing) -> bool {
    head.active.is_some()
        && head.write_fence() == closing.fence
        && head.tail == closing.tail
        && has(head, closing.epoch)
}

/// Moves the head over the first events of a run that continues.
const FIRST: &str = "UPDATE heads SET tail = ?, producer_seq = ?, at = ? WHERE key = ?";

/// A head with its newest run, inside a transaction that changes both.
pub(super) struct Change<'c> {
    pub(super) connection: &'c mut SqliteConnection,
    pub(super) now: Timestamp,
    /// Time of the events in the log.
    pub(super) at: Timestamp,
    pub(super) head: Head,
    pub(super) run: Run,
    pub(super) slice: LogSlice,
}

impl Change<'_> {
    /// Appends the run's first events; the run continues.
    async fn append(&mut self, events: &NewEvents) -> Work<()> {
        let first_seq = self.head.tail + 1;
        let count = events.count() as u64;
        self.head.tail += count;
        self.run.producer_seq = count;
        if let Some(active) = &mut self.head.active {
            active.producer_seq = count;
        }
        self.slice.0.extend(LogSlice::of(events, first_seq, &self.run.id, self.at).0);
        append::answering(self.connection, self.head.key, events, &self.run.id).await?;
        let (tail, key) = (rows::to_i64(self.head.tail), self.head.key.0);
        let first = query(FIRST).bind(tail).bind(rows::to_i64(count)).bind(self.at.0).bind(key);
        fetch::run(self.connection, first).await?;
        let entry = Entry {
            key: self.head.key,
            fence: self.head.fence,
            tail: self.head.tail,
            producer_seq: count,
            stop_requested_at: None,
            at: self.at,
            events: Some(events),
            end: None,
        };
        append::write(self.connection, entry, self.now).await
    }

    /// Ends the run, with events or without.
    pub(super) async fn end(&mut self, events: Option<&NewEvents>, end: End) -> Work<()> {
        let active = self.head.active.take().ok_or_else(|| corrupt("no run to end"))?;
        let first_seq = self.head.tail + 1;
        let count = events.map_or(0, |events| events.count() as u64);
        self.head.tail += count;
        self.run.producer_seq = active.producer_seq + count;
        self.run.status = end.status;
        (self.run.error_code, self.run.error_message) = (end.code.clone(), end.message.clone());
        self.run.usage.clone_from(&end.usage);
        (self.run.ended_at, self.run.lease_until) = (Some(self.now), None);
        if let Some(events) = events {
            self.slice.0.extend(LogSlice::of(events, first_seq, &self.run.id, self.at).0);
        }
        let entry = Entry {
            key: self.head.key,
            fence: self.head.fence,
            tail: self.head.tail,
            producer_seq: self.run.producer_seq,
            stop_requested_at: active.stop_requested_at,
            at: self.at,
            events,
            end: Some(end),
        };
        append::write(self.connection, entry, self.now).await
    }
}

async fn start(connection: &mut SqliteConnection, start: StartRun, now: Timestamp) -> Work<StartOutcome> {
    let known = look(connection, query(BY_ID).bind(start.key.0).bind(start.run.as_str())).await?;
    let (mut head, at) = match known {
        None => return Ok(StartOutcome::ThreadGone),
        Some((head, _, _)) if !has(&head, start.epoch) => return Ok(StartOutcome::OtherEpoch(head)),
        Some((head, Some(run), _)) => return Ok(StartOutcome::Exists(run, head)),
        Some((head, None, newest)) => (head, now.in_log_after(newest)),
    };
    let queued = query(QUEUED).bind(start.key.0).bind(start.run.as_str());
    if head.queue.queued > 0 && fetch::row(connection, queued).await?.is_some() {
        return Ok(StartOutcome::Queued(head));
    }
    let moves = !start.past_queue && head.queue.moves();
    let mut slice = LogSlice::default();
    if let Some(active) = head.active.clone() {
        let run = look(connection, query(ACTIVE).bind(start.key.0)).await?.and_then(|(_, run, _)| run);
        let run = run.ok_or_else(|| corrupt("an active run without a record"))?;
        if !active.finishing && active.lease_until > now {
            return Ok(StartOutcome::RunActive(run, head));
        }
        let Some(closing) = start.closing.filter(|closing| matches(&head, closing)) else {
            return Ok(StartOutcome::LeaseExpired(run, head));
        };
        if start.at.is_some_and(|at| at != head.tail) {
            return Ok(StartOutcome::TailMismatch(head));
        }
        if moves {
            return Ok(StartOutcome::QueueMoves(head));
        }
        let mut change = Change { connection: &mut *connection, now, at, head, run, slice };
        change.end(closing.events.as_ref(), End::closing(&closing)).await?;
        (head, slice) = (change.head, change.slice);
    } else if start.at.is_some_and(|at| at != head.tail) {
        return Ok(StartOutcome::TailMismatch(head));
    } else if moves {
        return Ok(StartOutcome::QueueMoves(head));
    }
    let new = NewRun {
        id: start.run,
        agent: start.agent,
        driven: start.turn.is_some(),
        attempt_id: start.attempt_id,
        events: start.events.as_ref().map_or(0, |events| events.count() as u64),
        author: start.author,
        asked_by: start.asked_by,
        lease: start.lease,
    };
    let run = begin(connection, &mut head, new, now).await?;
    let mut change = Change { connection, now, at, head, run, slice };
    match start.events.as_ref().map(|events| (events, events.terminal())) {
        Some((events, Some(terminal))) => change.end(Some(events), End::by(terminal, false)).await?,
        Some((events, None)) => change.append(events).await?,
        None => {}
    }
    if let Some(turn) = start.turn.filter(|_| change.head.active.is_some()) {
        turns::drive(change.connection, &change.head, &change.run, turn).await?;
    }
    Ok(StartOutcome::Started(Committed { run: change.run, head: change.head, slice: change.slice }))
}

/// True if a run may end: always, or if its lease or the grace of its stop is over.
pub(super) fn may_end(active: &ActiveHead, when: CloseWhen, now: Timestamp) -> bool {
    when == CloseWhen::Always
        || active.lease_until <= now
        || active.stop_requested_at.is_some_and(|asked| asked.plus(STOP_GRACE) <= now)
}

async fn close(
    connection: &mut SqliteConnection,
    key: ThreadKey,
    closing: Closing,
    when: CloseWhen,
    now: Timestamp,
) -> Work<CloseOutcome> {
    let found = look(connection, query(ACTIVE).bind(key.0)).await?;
    let Some((head, run, newest)) = found else { return Ok(CloseOutcome::Gone) };
    let (Some(run), Some(active)) = (run, &head.active) else { return Ok(CloseOutcome::Missed) };
    if !matches(&head, &closing) || head.queue.queued > 0 || !may_end(active, when, now) {
        return Ok(CloseOutcome::Missed);
    }
    let at = now.in_log_after(newest);
    let mut change = Change { connection, now, at, head, run, slice: LogSlice::default() };
    change.end(closing.events.as_ref(), End::closing(&closing)).await?;
    Ok(CloseOutcome::Closed(Box::new(Committed { run: change.run, head: change.head, slice: change.slice })))
}

#[async_trait]
impl RunStore for SqliteStore {
    async fn start(&self, mut run: StartRun) -> StoreResult<StartOutcome> {
        sql::turns::seal(&self.inner.secrets, &mut run)?;
        let clock = self.inner.clock.clone();
        self.transact(move |connection| Box::pin(async move { start(connection, run, clock.now()).await })).await
    }

    async fn close(&self, key: ThreadKey, closing: Closing, when: CloseWhen) -> StoreResult<CloseOutcome> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| {
            Box::pin(async move { close(connection, key, closing, when, clock.now()).await })
        })
        .await
    }

    async fn heartbeat(&self, beats: &[HeartbeatRequest]) -> StoreResult<Vec<Option<ActiveHead>>> {
        let (beats, clock) = (beats.to_vec(), self.inner.clock.clone());
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        self.transact(move |connection| {
            Box::pin(async move {
                let now = clock.now();
                let mut answers = Vec::with_capacity(beats.len());
                // One statement for all; a thread that is named twice needs a second one, because a statement changes a
                // row once.
                let mut rest = beats.as_slice();
                while !rest.is_empty() {
                    let mut seen = std::collections::HashSet::new();
                    let size = rest.iter().take_while(|beat| seen.insert(beat.key)).count();
                    let (round, later) = rest.split_at(size);
                    rest = later;
                    let list = round.iter().map(|beat| {
                        let (lease, epoch) = (beat.lease.map(rows::millis), beat.epoch.map(Epoch::to_i64));
                        json!([beat.key.0, beat.fence.run.0, lease, epoch, beat.fence.driver.0])
                    });
                    let list = Value::Array(list.collect()).to_string();
                    let mut active = HashMap::new();
                    for row in fetch::rows(connection, query(HEARTBEAT).bind(list).bind(now.0)).await? {
                        if let Some((head, _)) = Columns::new(&row).head()? {
                            active.insert(head.key, head.active);
                        }
                    }
                    answers.extend(round.iter().map(|beat| active.remove(&beat.key).flatten()));
                }
                Ok(answers)
            })
        })
        .await
    }

    async fn request_stop(
        &self,
        key: ThreadKey,
        run: &RunId,
        epoch: Option<Epoch>,
        holds: bool,
    ) -> StoreResult<StopOutcome> {
        let (id, clock) = (run.clone(), self.inner.clock.clone());
        self.transact(move |connection| {
            Box::pin(async move {
                let now = clock.now();
                let stop = query(STOP)
                    .bind(now.0)
                    .bind(key.0)
                    .bind(id.as_str())
                    .bind(now.plus(STOP_GRACE).0)
                    .bind(epoch.map(Epoch::to_i64))
                    .bind(holds);
                fetch::run(connection, stop).await?;
                Ok(match look(connection, query(BY_ID).bind(key.0).bind(id.as_str())).await? {
                    None => StopOutcome::Gone,
                    Some((head, _, _)) if !has(&head, epoch) => StopOutcome::OtherEpoch(head),
                    Some((_, None, _)) => StopOutcome::NoRun,
                    Some((head, Some(run), _)) if run.status.is_active() => StopOutcome::Asked(run, head),
                    Some((_, Some(run), _)) => StopOutcome::Ended(run),
                })
            })
        })
        .await
    }

    async fn release(&self, key: ThreadKey, fence: Fence, epoch: Option<Epoch>) -> StoreResult<bool> {
        let until = self.inner.clock.now().plus(RELEASE_GRACE);
        self.transact(move |connection| {
            let release = query(RELEASE).bind(key.0).bind(fence.0).bind(until.0).bind(epoch.map(Epoch::to_i64));
            Box::pin(async move { Ok(fetch::change(connection, release).await? > 0) })
        })
        .await
    }

    async fn claim_due(&self, limit: usize) -> StoreResult<Claimed> {
        // Read first, so that nothing is committed if there is nothing to do.
        if self.read_rows(query(WAITING).bind(self.inner.clock.now().0)).await?.is_empty() {
            return Ok(Claimed::default());
        }
        let clock = self.inner.clock.clone();
        let rows = self
            .transact(move |connection| {
                let claim = query(CLAIM_DUE)
                    .bind(clock.now().0)
                    .bind(rows::millis(STOP_GRACE))
                    .bind(rows::millis(REAP_CLAIM))
                    .bind(rows::limit(limit));
                Box::pin(async move { fetch::rows(connection, claim).await })
            })
            .await?;
        pages::claimed(&rows, limit)
    }

    async fn renew_leases(&self, which: Renewal, after: Option<ThreadKey>) -> StoreResult<Renewed> {
        let clock = self.inner.clock.clone();
        self.transact(move |connection| {
            Box::pin(async move { leases::renew_page(connection, which, after, clock.now()).await })
        })
        .await
    }

    async fn active_runs(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        bound: ActiveRuns,
    ) -> StoreResult<ActiveRuns> {
        let statement = query(ACTIVE_RUNS)
            .bind(project.as_str())
            .bind(user.map(|user| user.as_str()))
            .bind(rows::to_i64(bound.project))
            .bind(rows::to_i64(bound.user));
        pages::active_runs(&self.read_rows(statement).await?)
    }

    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        Ok(self.runs_of(query(BY_ID).bind(key.0).bind(run.as_str())).await?.pop())
    }

    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        let before = before.map_or(i64::MAX, |fence| fence.0);
        self.runs_of(query(RUNS).bind(key.0).bind(before).bind(rows::limit(limit))).await
    }
}

impl SqliteStore {
    async fn runs_of(&self, statement: fetch::Statement<'_>) -> StoreResult<Vec<Run>> {
        pages::runs(&self.read_rows(statement).await?)
    }
}
