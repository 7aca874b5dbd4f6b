//! Queues of threads, and the begin of their turns.

use async_trait::async_trait;
use threadline_core::{
    Author, Hold, LogSlice, NewEvents, ProjectId, Run, ThreadKey, Timestamp, UserId,
    limits::{DRIVEN_LEASE, PACK_FIRST_LOOK},
};

use super::{MemoryStore, Row, driven::Driven, queue_row::QueueRow};
use crate::{
    Advance, Advanced, ChangeQueue, CloseWhen, Committed, Due, Head, JobKind, Lineage, Queue, QueueStore, QueuedTurn,
    StoreResult, new_run::NewRun,
};

impl Row {
    /// Begins the run of a queued turn. Nobody drives it yet.
    fn begin_queued(&mut self, turn: QueuedTurn, lineage: Lineage, now: Timestamp) -> Run {
        let new = NewRun {
            id: turn.run,
            author: Some(Author::agent(&turn.agent)),
            agent: Some(turn.agent),
            driven: true,
            attempt_id: None,
            events: 0,
            asked_by: turn.asked_by,
            lease: DRIVEN_LEASE,
        };
        let run = self.begin(new, lineage, now);
        self.turn = Some(Driven::queued(turn.input, self.thread.tail + 1));
        run
    }
}

#[async_trait]
impl QueueStore for MemoryStore {
    async fn queue(&self, key: ThreadKey) -> StoreResult<Option<Queue>> {
        let state = self.state();
        Ok(state.threads.get(&key).map(|row| Queue {
            head: row.head(),
            interrupts: row.interrupts.clone(),
            turns: row.queue.turns.clone(),
        }))
    }

    async fn change_queue(&self, change: ChangeQueue) -> StoreResult<Option<Head>> {
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&change.key) else { return Ok(None) };
        let taken = |new: &QueuedTurn| {
            row.fence != change.seen.fence || row.queue.has(&new.run) || row.runs.values().any(|run| run.id == new.run)
        };
        if row.queue.version != change.seen.queue.version || change.new.as_ref().is_some_and(taken) {
            return Ok(None);
        }
        row.enter(state.lineage);
        let queue = &mut row.queue;
        queue.turns.retain(|turn| !change.gone.contains(&turn.run));
        queue.turns.extend(change.new);
        if let Some((run, input)) = change.edited
            && let Some(turn) = queue.turns.iter_mut().find(|turn| turn.run == run)
        {
            turn.input = Some(input);
        }
        queue.turns.sort_by_key(|turn| change.order.iter().position(|run| *run == turn.run));
        queue.version += 1;
        queue.held = Hold::over(change.held, queue.turns.len() as u64);
        row.thread.version += 1;
        Ok(Some(row.head()))
    }

    async fn advance(&self, advance: Advance) -> StoreResult<Option<Advanced>> {
        let now = self.clock.now();
        let judged = self.judged(now);
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&advance.key) else { return Ok(None) };
        let as_seen = match &advance.end {
            Some((closing, when)) => row.matches(closing) && (*when == CloseWhen::Always || row.is_due(judged)),
            None => row.active().is_none(),
        };
        let there = advance.next.as_ref().is_none_or(|next| row.queue.has(next));
        if !as_seen || !there || row.queue.version != advance.seen.version {
            return Ok(None);
        }
        row.enter(state.lineage);
        let mut slice = LogSlice::default();
        let mut ended = None;
        if let Some((closing, _)) = &advance.end {
            let events = closing.events.as_ref();
            slice = events.map(|events| row.push(events, now)).unwrap_or_default();
            row.end(closing.status, closing.error_code.clone(), closing.error_message.clone(), now);
            row.note_usage(events.and_then(NewEvents::terminal));
            row.note_interrupts(events);
            if row.passed_segment() {
                state.jobs.put(JobKind::Seal, advance.key, now);
            }
            ended = row.runs.get(&row.fence).cloned();
        }
        let after = advance.after();
        let leaves =
            |turn: &QueuedTurn| advance.dropped.contains(&turn.run) || advance.next.as_ref() == Some(&turn.run);
        let (left, kept) = std::mem::take(&mut row.queue.turns).into_iter().partition::<Vec<_>, _>(leaves);
        row.queue = QueueRow { version: after.version, held: after.held, turns: kept };
        let next = left.into_iter().find(|turn| advance.next.as_ref() == Some(&turn.run));
        let begun = next.map(|turn| row.begin_queued(turn, state.lineage, now));
        if begun.is_some() {
            state.jobs.put(JobKind::Pack, advance.key, now.plus(PACK_FIRST_LOOK));
        }
        let head = row.head();
        Ok(ended.or_else(|| begun.clone()).map(|run| Advanced { committed: Committed { run, head, slice }, begun }))
    }

    async fn moving_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<Due>> {
        let state = self.state();
        let moving = state.threads.iter().filter(|(key, row)| {
            after.is_none_or(|after| **key > after)
                && row.queue.state().moves()
                && row.active().is_none()
                && row.interrupts.is_none()
        });
        let due = moving.take(limit).map(|(key, row)| Due {
            key: *key,
            project: row.thread.project.clone(),
            user: row.thread.user.clone(),
            thread: row.thread.id.clone(),
        });
        Ok(due.collect())
    }

    async fn queued_turns(&self, project: &ProjectId, user: &UserId, bound: u64) -> StoreResult<u64> {
        let state = self.state();
        let all = state.threads.values().chain(state.trash.values());
        let own = all.filter(|row| row.thread.project == *project && row.thread.user == *user);
        Ok(own.map(|row| row.queue.turns.len() as u64).sum::<u64>().min(bound))
    }
}
