//! Export and import of threads.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, Digest, Epoch, FeedHead, LogHistory, ProjectId, RunId, ThreadKey, UserId};

use super::{Feed, MemoryStore, Row};
use crate::{AnnotatedThread, ExportStore, FeedImage, MovedThread, StoreResult, TransferStore};

impl Row {
    /// The thread by its names, for lists of what it has beside the log.
    pub(super) fn named_thread(&self) -> AnnotatedThread {
        AnnotatedThread {
            key: self.thread.key,
            project: self.thread.project.clone(),
            user: self.thread.user.clone(),
            id: self.thread.id.clone(),
            claimed: self.thread.claimed,
            epoch: self.thread.epoch,
        }
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
        let moved = rows.into_iter().map(|row| MovedThread {
            thread: row.snapshot(),
            fence: row.fence,
            interrupts: None,
            request: None,
        });
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
        let annotated = rows.map(Row::named_thread);
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
