//! Turns of driven runs.

use async_trait::async_trait;
use threadline_core::{DriverFence, NodeId, RunId, ThreadKey, limits::DRIVER_TTL};

use super::{MemoryStore, Row, driven::Driven};
use crate::{Before, ClaimTurns, Committed, StoreResult, TakeTurn, Taken, Turn, TurnStore};

impl Row {
    /// The next event of the log is the first one of the present attempt.
    pub(super) fn attempt_begins(&mut self) {
        let next = self.thread.tail + 1;
        if let Some(turn) = &mut self.turn {
            turn.attempt_seq = next;
        }
    }

    /// The driven turn of this run and driver.
    fn driven_by(&mut self, run: &RunId, driver: DriverFence) -> Option<&mut Driven> {
        let same = self.driver == driver && self.active().is_some_and(|active| active.id == *run);
        self.turn.as_mut().filter(|_| same)
    }
}

#[async_trait]
impl TurnStore for MemoryStore {
    async fn claim_turns(&self, claim: &ClaimTurns) -> StoreResult<Vec<Turn>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let lost = |node: &NodeId| {
            let seen = state.nodes.get(node);
            claim.judges && seen.is_none_or(|seen| u128::from(seen.at.0.abs_diff(now.0)) >= DRIVER_TTL.as_millis())
        };
        let mut claimed = Vec::new();
        for row in state.threads.values_mut() {
            let Some(run) = row.active().cloned() else { continue };
            let Some(turn) = &mut row.turn else { continue };
            let before = match turn.driver {
                None => Before::HandedOver,
                Some(node) if node == claim.node && claim.own.contains(&row.thread.key) => Before::TaskLost,
                Some(node) if node != claim.node && lost(&node) => Before::NodeLost,
                Some(_) => continue,
            };
            claimed.push((turn, before, &row.thread, run, row.driver));
        }
        claimed.truncate(claim.limit);
        let turns = claimed.into_iter().map(|(turn, before, thread, run, driver)| {
            turn.driver = Some(claim.node);
            Turn {
                key: thread.key,
                project: thread.project.clone(),
                user: thread.user.clone(),
                thread: thread.id.clone(),
                run: run.id,
                agent: run.agent,
                driver,
                attempt: turn.attempt,
                attempt_seq: turn.attempt_seq,
                futile: turn.futile,
                called: turn.called,
                input: turn.input.clone(),
                before,
            }
        });
        Ok(turns.collect())
    }

    async fn turns_of(&self, node: NodeId) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        let state = self.state();
        let driven =
            state.threads.iter().filter(|(_, row)| row.turn.as_ref().is_some_and(|turn| turn.driver == Some(node)));
        Ok(driven.filter_map(|(key, row)| Some((*key, row.active()?.id.clone()))).collect())
    }

    async fn take_turn(&self, take: TakeTurn) -> StoreResult<Option<Taken>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&take.key) else { return Ok(None) };
        let ready = |run: &threadline_core::Run| run.id == take.run && run.stop_requested_at.is_none();
        if row.write_fence() != take.fence || row.thread.tail != take.tail || !row.active().is_some_and(ready) {
            return Ok(None);
        }
        row.enter(state.lineage);
        row.driver = DriverFence(row.driver.0.max(state.lineage.generation.fence_floor()) + 1);
        let slice = take.events.as_ref().map(|events| row.push(events, now)).unwrap_or_default();
        row.attempt_begins();
        row.thread.version += 1;
        let Some(turn) = &mut row.turn else { return Ok(None) };
        (turn.driver, turn.futile, turn.attempt) = (Some(take.driver), take.futile, turn.attempt + 1);
        turn.input = take.input.or(turn.input.take());
        let (called, attempt) = (turn.called, turn.attempt);
        let lease = row.lease;
        let Some(run) = row.runs.get_mut(&take.fence.run) else { return Ok(None) };
        run.attempt = attempt;
        run.lease_until = run.lease_until.max(Some(now.plus(lease)));
        let run = run.clone();
        Ok(Some(Taken { committed: Committed { run, head: row.head(), slice }, called }))
    }

    async fn mark_called(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<bool> {
        let state = &mut *self.state();
        let turn = state.threads.get_mut(&key).and_then(|row| row.driven_by(run, driver));
        Ok(turn.map(|turn| turn.called = true).is_some())
    }

    async fn leave_turn(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<()> {
        let state = &mut *self.state();
        if let Some(turn) = state.threads.get_mut(&key).and_then(|row| row.driven_by(run, driver)) {
            turn.driver = None;
        }
        Ok(())
    }
}
