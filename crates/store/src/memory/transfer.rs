//! Export and import of threads.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use threadline_core::{
    AgentId, ApiKey, Clock, Digest, Epoch, FeedHead, LogHistory, ProjectId, RunId, Thread, ThreadKey, Timestamp,
    UserId,
    limits::{PACK_FIRST_LOOK, STAGING_TIMEOUT},
};

use super::{Feed, MemoryStore, Row};
use crate::{
    AnnotatedThread, ExportStore, FeedImage, JobKind, MovedThread, Published, StagedPart, Staging, StoreError,
    StoreResult, TransferStore,
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
impl ExportStore for MemoryStore {
    async fn count_threads(&self) -> StoreResult<u64> {
        Ok(self.state().threads.len() as u64)
    }

    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>> {
        let state = self.state();
        let mut rows: Vec<_> = state.threads.values().filter(|row| Some(row.thread.key) > after).collect();
        rows.sort_by_key(|row| row.thread.key);
        let moved =
            rows.into_iter().map(|row| MovedThread { thread: row.snapshot(), fence: row.fence, interrupts: None });
        Ok(moved.take(limit).collect())
    }

    async fn turns(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<(ThreadKey, RunId)>> {
        let state = self.state();
        let active = state.threads.iter().filter(|(key, _)| Some(**key) > after);
        let turns = active.filter_map(|(key, row)| Some((*key, row.active()?.id.clone())));
        Ok(turns.take(limit).collect())
    }

    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>> {
        let state = self.state();
        let rows = state.threads.values().filter(|row| Some(row.thread.key) > after && !row.annotations.is_empty());
        let annotated = rows.map(|row| AnnotatedThread {
            key: row.thread.key,
            project: row.thread.project.clone(),
            user: row.thread.user.clone(),
            id: row.thread.id.clone(),
            claimed: row.thread.claimed,
            epoch: row.thread.epoch,
        });
        Ok(annotated.take(limit).collect())
    }

    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>> {
        let state = self.state();
        let agents = state.agents.iter().map(|((project, id), text)| (project.clone(), id.clone(), text.clone()));
        Ok(agents.collect())
    }

    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>> {
        Ok(self.state().identity.all_keys())
    }

    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>> {
        let state = self.state();
        let feeds = state.feeds.iter().filter(|(owner, feed)| Some(*owner) > after && feed.head.position > 0);
        let mut owners: Vec<_> = feeds.map(|(owner, _)| owner.clone()).collect();
        owners.sort();
        owners.truncate(limit);
        Ok(owners)
    }

    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage> {
        let state = self.state();
        Ok(state.feeds.get(&(project.clone(), user.clone())).map(Feed::image).unwrap_or_default())
    }
}

#[async_trait]
impl TransferStore for MemoryStore {
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

    async fn publish(&self, key: ThreadKey, moved: &MovedThread) -> StoreResult<Published> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let thread = &moved.thread;
        if state.taken(&thread.project, &thread.user, &thread.id, thread.claimed).is_some() {
            return Ok(Published::Taken);
        }
        let Some(mut staged) = state.staged.remove(&key) else { return Ok(Published::Gone) };
        if staged.row.log.last().map_or(0, |last| last.last_seq) != moved.thread.tail {
            return Err(StoreError::Corrupt(format!("the log of thread {} was not staged whole", thread.id)));
        }
        if let Some(active) = &moved.thread.active_run
            && let Some(run) = staged.row.runs.get_mut(&active.fence)
        {
            run.lease_until = Some(active.lease_until.unwrap_or(now).min(now));
        }
        // The feed owes the thread a position, unless an imported feed has one: see `put_feed`.
        staged.row.fed_version = -staged.row.thread.version;
        staged.row.generation = state.lineage.generation;
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

    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool> {
        let state = &mut *self.state();
        let feed = state.feeds.entry((project.clone(), user.clone())).or_default();
        let Some(image) = feed.image().taking(moved) else { return Ok(false) };
        feed.head = match (feed.head.history.epoch, image.epoch) {
            (Epoch::NONE, epoch) if epoch != Epoch::NONE => {
                let history = LogHistory { epoch, generation: state.lineage.generation, prior: None };
                FeedHead { position: image.head, history }
            }
            _ => {
                let entered = feed.head.entering(state.lineage.generation, state.lineage.nonce);
                FeedHead { position: image.head, ..entered }
            }
        };
        (feed.entries, feed.newest) = (BTreeMap::new(), HashMap::new());
        for (pos, id) in image.entries {
            let key = state.ids.of(project, user, &id);
            let row = key.and_then(|key| state.threads.get_mut(&key));
            feed.newest.insert(id.clone(), pos);
            feed.entries.insert(pos, (id, row.as_ref().map(|row| row.thread.key)));
            if let Some(row) = row {
                row.fed_version = row.fed_version.abs();
            }
        }
        Ok(true)
    }
}
