//! Attempts at runs of producers.

use async_trait::async_trait;
use threadline_core::{DriverFence, Run, RunId, RunStatus, ThreadKey};

use super::{MemoryStore, Row, driven::Pushed};
use crate::{AttemptStore, Committed, ProducerTurn, StoreResult, TakeUp};

impl Row {
    fn pushed(&self, run: &RunId) -> Option<(&Run, &Pushed)> {
        Some((self.active().filter(|active| active.id == *run)?, self.pushed.as_ref()?))
    }
}

#[async_trait]
impl AttemptStore for MemoryStore {
    async fn producer_turn(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<ProducerTurn>> {
        let state = self.state();
        let found = state.threads.get(&key).and_then(|row| row.pushed(run));
        Ok(found.map(|(run, pushed)| {
            let Pushed { attempt_id, displaced, opened } = pushed.clone();
            ProducerTurn { attempt: run.attempt, attempt_id, displaced, opened }
        }))
    }

    async fn take_up(&self, take: TakeUp) -> StoreResult<Option<Committed>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&take.key) else { return Ok(None) };
        let ready = row.pushed(&take.run).is_some_and(|(run, _)| run.stop_requested_at.is_none());
        let same = row.write_fence() == take.fence && row.thread.tail == take.tail;
        if !ready || !same || state.lineage.generation != take.generation {
            return Ok(None);
        }
        row.enter(state.lineage);
        row.driver = DriverFence::of_attempt(take.attempt);
        let slice = take.events.as_ref().map(|events| row.push(events, now)).unwrap_or_default();
        row.thread.version += 1;
        row.lease = take.lease.unwrap_or(row.lease);
        let until = now.plus(row.lease);
        let (Some(pushed), Some(run)) = (&mut row.pushed, row.runs.get_mut(&take.fence.run)) else { return Ok(None) };
        (pushed.attempt_id, pushed.displaced) = (Some(take.attempt_id), take.displaced);
        run.attempt = take.attempt;
        run.status = RunStatus::Running;
        run.lease_until = run.lease_until.max(Some(until));
        let run = run.clone();
        Ok(Some(Committed { run, head: row.head(), slice }))
    }
}
