//! Start and end of runs: one statement each, which changes the head only if it is as expected. Otherwise a second
//! statement finds the reason.

use sqlx::query;
use threadline_core::{
    Author, Epoch, LogSlice, NewEvents, Run, RunId, ThreadKey, Timestamp, WriteFence,
    limits::{PACK_FIRST_LOOK, PG_RACES, STOP_GRACE},
};

use super::{
    PgStore,
    append::Pieces,
    fetch::Kind,
    rows::{self, Columns, text_of},
};
use crate::{
    CloseOutcome, CloseWhen, Closing, Committed, Head, StartOutcome, StartRun, StoreError, StoreResult,
    sql::{append::End, columns::Cells, corrupt},
};

/// A start, which may close the run before.
pub const START: &str = text_of(include_str!("../../queries/postgres/start.sql"));

pub(super) const CLOSE: &str = text_of(include_str!("../../queries/postgres/close.sql"));

pub(super) const LOOK: &str = text_of(include_str!("../../queries/postgres/look.sql"));

/// State of a head that was not as expected.
pub(super) struct Look {
    pub(super) now: Timestamp,
    pub(super) head: Head,
    /// The run of the requested id.
    pub(super) run: Option<Run>,
    pub(super) active: Option<Run>,
    /// True if a queued turn has this id.
    pub(super) queued: bool,
}

pub(super) fn count(events: Option<&NewEvents>) -> i64 {
    events.map_or(0, |events| events.count() as i64)
}

/// Events that a commit put into the log: the older run's events, then the newer one's.
pub(super) fn slice(
    head: &Head,
    at: Timestamp,
    parts: [(Option<&NewEvents>, Option<&RunId>); 2],
) -> StoreResult<LogSlice> {
    let events: u64 = parts.iter().filter_map(|(events, _)| *events).map(|events| events.count() as u64).sum();
    let mut first_seq = (head.tail + 1).checked_sub(events).ok_or_else(|| corrupt("a tail below its own events"))?;
    let mut slice = LogSlice::default();
    for (events, run) in parts {
        let Some(events) = events else { continue };
        let run = run.ok_or_else(|| corrupt("a run without a record"))?;
        slice.0.extend(LogSlice::of(events, first_seq, run, at).0);
        first_seq += events.count() as u64;
    }
    Ok(slice)
}

impl PgStore {
    /// A head with a run of this id and the active one; `None` if the thread is gone.
    pub(super) async fn look(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Look>> {
        let rows = self.read_rows(query(LOOK).bind(self.now()).bind(key.0).bind(run.as_str())).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let now = columns.time()?;
        let (head, _) = columns.head()?.ok_or_else(|| corrupt("a head without columns"))?;
        let (run, active) = (columns.run(&head)?, columns.run(&head)?);
        Ok(Some(Look { now, head, run, active, queued: columns.flag()? }))
    }

    /// Starts the run if the thread is free, or if `closing` ends the active one. `None` if neither, or if the id is
    /// taken.
    async fn try_start(&self, start: &StartRun, closing: Option<&Closing>) -> StoreResult<Option<Committed>> {
        let own = start.events.as_ref();
        let closers = closing.and_then(|closing| closing.events.as_ref());
        let end = own.and_then(|events| events.terminal()).map(|terminal| End::by(terminal, false));
        let close = closing.map(End::closing);
        let mut pieces = Pieces::default();
        if let Some(events) = closers {
            pieces.add(start.key, events, own.map_or(0, |own| own.count()));
        }
        let older = pieces.counts.len();
        if let Some(events) = own {
            pieces.add(start.key, events, 0);
        }
        let older: Vec<i64> = (0..pieces.counts.len()).map(|piece| i64::from(piece < older)).collect();
        let texts = |end: &Option<End>, of: fn(&End) -> &Option<String>| {
            end.as_ref().and_then(|end| of(end).clone()).map(rows::text)
        };
        let statement = query(START)
            .bind(self.now())
            .bind(start.key.0)
            .bind(start.run.as_str())
            .bind(start.agent.as_ref().map(|agent| agent.as_str()))
            .bind(rows::millis(start.lease))
            .bind(count(own))
            .bind(end.as_ref().map(|end| end.status.to_i64()))
            .bind(texts(&end, |end| &end.code))
            .bind(texts(&end, |end| &end.message))
            .bind(texts(&end, |end| &end.usage))
            .bind(closing.map(|closing| closing.fence.run.0))
            .bind(closing.map(|closing| rows::to_i64(closing.tail)))
            .bind(count(closers))
            .bind(close.as_ref().map(|end| end.status.to_i64()))
            .bind(texts(&close, |end| &end.code))
            .bind(texts(&close, |end| &end.message))
            .bind(pieces.back)
            .bind(pieces.counts)
            .bind(pieces.bodies)
            .bind(older)
            .bind(start.at.map(rows::to_i64))
            .bind(start.turn.as_ref().map(|turn| turn.driver.to_string()))
            .bind(pieces.crcs)
            .bind(start.epoch.map(Epoch::to_i64))
            .bind(self.bound())
            .bind(rows::millis(PACK_FIRST_LOOK))
            .bind(start.author.as_ref().map(Author::as_str))
            .bind(start.asked_by.as_ref().map(Author::as_str))
            .bind(closing.map(|closing| closing.fence.driver.0))
            .bind(start.turn.as_ref().and_then(|turn| turn.input.as_deref()))
            .bind(own.and_then(NewEvents::answers))
            .bind(texts(&end, |end| &end.interrupts))
            .bind(start.past_queue)
            .bind(start.attempt_id.as_ref().map(|id| id.as_str()));
        let rows = match self.write_once(statement).await {
            // Another start of the same id was first, or a queued turn has it.
            Err(failure) if failure.kind == Kind::Duplicate => return Ok(None),
            done => done?,
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let closed = columns.maybe_id(RunId::new)?;
        let (head, run, at) = committed(columns)?;
        let slice = slice(&head, at, [(closers, closed.as_ref()), (own, Some(&run.id))])?;
        Ok(Some(Committed { run, head, slice }))
    }

    pub(super) async fn start_run(&self, start: &StartRun) -> StoreResult<StartOutcome> {
        let mut closing = start.closing.as_ref();
        for _ in 0..PG_RACES {
            if let Some(committed) = self.try_start(start, closing).await? {
                return Ok(StartOutcome::Started(committed));
            }
            let Some(Look { now, head, run, active, queued }) = self.look(start.key, &start.run).await? else {
                return Ok(StartOutcome::ThreadGone);
            };
            if start.epoch.is_some_and(|epoch| epoch != head.epoch) {
                return Ok(StartOutcome::OtherEpoch(head));
            }
            if let Some(run) = run {
                return Ok(StartOutcome::Exists(run, head));
            }
            if queued {
                return Ok(StartOutcome::Queued(head));
            }
            let moves = !start.past_queue && head.queue.moves();
            let (Some(run), Some(lease)) = (active, &head.active) else {
                if start.at.is_some_and(|at| at != head.tail) {
                    return Ok(StartOutcome::TailMismatch(head));
                }
                if moves {
                    return Ok(StartOutcome::QueueMoves(head));
                }
                // The previous run has ended meanwhile: no run has to be closed.
                closing = None;
                continue;
            };
            if !lease.finishing && lease.lease_until > now.min(Timestamp(self.bound())) {
                return Ok(StartOutcome::RunActive(run, head));
            }
            closing = start.closing.as_ref().filter(|closing| matches(&head, closing.fence, closing.tail));
            if closing.is_none() {
                return Ok(StartOutcome::LeaseExpired(run, head));
            }
            if start.at.is_some_and(|at| at != head.tail) {
                return Ok(StartOutcome::TailMismatch(head));
            }
            if moves {
                return Ok(StartOutcome::QueueMoves(head));
            }
        }
        Err(StoreError::Unavailable("too many starts in this thread at once".to_owned()))
    }

    pub(super) async fn close_run(
        &self,
        key: ThreadKey,
        closing: Closing,
        when: CloseWhen,
    ) -> StoreResult<CloseOutcome> {
        let (events, end) = (closing.events.as_ref(), End::closing(&closing));
        let mut pieces = Pieces::default();
        if let Some(events) = events {
            pieces.add(key, events, 0);
        }
        let statement = query(CLOSE)
            .bind(self.now())
            .bind(key.0)
            .bind(closing.fence.run.0)
            .bind(rows::to_i64(closing.tail))
            .bind(when == CloseWhen::IfDue)
            .bind(rows::millis(STOP_GRACE))
            .bind(count(events))
            .bind(end.status.to_i64())
            .bind(end.code.map(rows::text))
            .bind(end.message.map(rows::text))
            .bind(pieces.back)
            .bind(pieces.counts)
            .bind(pieces.bodies)
            .bind(pieces.crcs)
            .bind(closing.epoch.map(Epoch::to_i64))
            .bind(self.bound())
            .bind(closing.fence.driver.0);
        let rows = self.write(statement).await?;
        if let Some(row) = rows.first() {
            let (head, run, at) = committed(Columns::new(row))?;
            let slice = slice(&head, at, [(None, None), (events, Some(&run.id))])?;
            return Ok(CloseOutcome::Closed(Box::new(Committed { run, head, slice })));
        }
        let found = crate::LogStore::heads(self, &[key]).await?;
        Ok(if found.is_empty() { CloseOutcome::Gone } else { CloseOutcome::Missed })
    }
}

fn matches(head: &Head, fence: WriteFence, tail: u64) -> bool {
    head.write_fence() == fence && head.tail == tail
}

/// The time, the head and the run that a commit left behind.
pub(super) fn committed<R: Cells>(mut columns: Columns<'_, R>) -> StoreResult<(Head, Run, Timestamp)> {
    let at = columns.time()?;
    let (head, _) = columns.head()?.ok_or_else(|| corrupt("a commit without a head"))?;
    let run = columns.run(&head)?.ok_or_else(|| corrupt("a commit without a run"))?;
    Ok((head, run, at))
}
