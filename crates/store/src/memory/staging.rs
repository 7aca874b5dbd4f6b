//! Threads that are written in steps.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    Clock, DriverFence, Thread, ThreadKey, Timestamp,
    limits::{PACK_FIRST_LOOK, STAGING_TIMEOUT},
};

use super::{MemoryStore, Row, driven::Pushed};
use crate::{
    Arrival, Displaced, JobKind, MovedThread, Published, StagedPart, Staging, StagingStore, StoreError, StoreResult,
};

/// A staged thread, which no client sees yet.
#[derive(Debug, Clone)]
pub(super) struct Staged {
    row: Row,
    touched: Timestamp,
}

impl Staged {
    fn put(&mut self, part: StagedPart, clock: &Clock) {
        self.touched = clock.now();
        self.row.decided = part.sealed().unwrap_or(self.row.decided);
        self.row.runs.extend(part.runs.into_iter().map(|run| (run.fence, run)));
        self.row.log.extend(part.rows.into_iter().map(|staged| staged.row));
    }

    /// Time left for the next step of the import; zero if it was abandoned.
    pub(super) fn left(&self, now: Timestamp) -> Duration {
        let left = self.touched.plus(STAGING_TIMEOUT).0.saturating_sub(now.0);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

#[async_trait]
impl StagingStore for MemoryStore {
    async fn stage(&self, moved: &MovedThread, part: StagedPart) -> StoreResult<Staging> {
        let state = &mut *self.state();
        let thread = &moved.thread;
        if let Some(row) = state.taken(&thread.project, &thread.user, &thread.id, thread.claimed) {
            return Ok(Staging::Taken(Box::new(row.snapshot())));
        }
        let same = |staged: &Thread| {
            (&staged.project, &staged.user, &staged.id) == (&thread.project, &thread.user, &thread.id)
        };
        state.staged.retain(|_, staged| !same(&staged.row.thread));
        state.last_key += 1;
        let key = ThreadKey(state.last_key);
        let mut row = Row::new(thread.clone(), state.lineage.generation);
        (row.thread.key, row.thread.active_run, row.thread.last_run, row.fence) = (key, None, None, moved.fence);
        row.requested = moved.request.is_some();
        let mut staged = Staged { row, touched: Timestamp(0) };
        staged.put(part, &self.clock);
        state.staged.insert(key, staged);
        state.jobs.put(JobKind::Purge, key, self.clock.now().plus(STAGING_TIMEOUT));
        Ok(Staging::Staged(key))
    }

    async fn stage_more(&self, key: ThreadKey, part: StagedPart) -> StoreResult<bool> {
        let state = &mut *self.state();
        let staged = state.staged.get_mut(&key);
        Ok(staged.map(|staged| staged.put(part, &self.clock)).is_some())
    }

    async fn publish(&self, key: ThreadKey, moved: &MovedThread, arrival: Arrival) -> StoreResult<Published> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let thread = &moved.thread;
        if state.taken(&thread.project, &thread.user, &thread.id, thread.claimed).is_some() {
            return Ok(Published::Taken);
        }
        if let Arrival::Fork { parent, epoch } = arrival
            && !state.threads.get(&parent).is_some_and(|row| row.has(Some(epoch)))
        {
            return Ok(Published::Gone);
        }
        let Some(mut staged) = state.staged.remove(&key) else { return Ok(Published::Gone) };
        if staged.row.log.last().map_or(0, |last| last.last_seq) != moved.thread.tail {
            return Err(StoreError::Corrupt(format!("the log of thread {} was not staged whole", thread.id)));
        }
        if let Some(active) = &moved.thread.active_run
            && let Some(run) = staged.row.runs.get_mut(&active.fence)
        {
            run.lease_until = Some(active.lease_until.unwrap_or(now).min(now));
            staged.row.pushed = Some(Pushed { attempt_id: None, displaced: Displaced::default(), opened: 0 });
            if !run.driven {
                staged.row.driver = DriverFence::of_attempt(run.attempt);
            }
        }
        // The feed owes the thread a position, unless an imported feed has one: see `put_feed`.
        staged.row.fed_version = match arrival {
            Arrival::Import => -staged.row.thread.version,
            Arrival::Fork { parent, .. } => {
                state.relate(parent, staged.row.thread.branch.family);
                0
            }
        };
        staged.row.generation = state.lineage.generation;
        (staged.row.thread.tail, staged.row.fence) = (moved.thread.tail, moved.fence);
        staged.row.interrupts.clone_from(&moved.interrupts);
        state.ids.insert(&staged.row.thread);
        state.charge(&staged.row.thread, staged.row.usage());
        state.threads.insert(key, staged.row);
        state.jobs.put(JobKind::Pack, key, now.plus(PACK_FIRST_LOOK));
        Ok(Published::Done)
    }

    async fn unstage(&self, key: ThreadKey) -> StoreResult<()> {
        let state = &mut *self.state();
        if state.staged.remove(&key).is_some() {
            state.jobs.put_anew(JobKind::Purge, key, self.clock.now());
        }
        Ok(())
    }
}
