//! The trash: rows beside the threads.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    AuditEntry, ListOrder, ListPosition, ProjectId, ThreadId, ThreadKey, Timestamp, TrashPage, TrashedThread, UserId,
};

use super::{MemoryStore, Row};
use crate::{JobKind, JobSubject, Restoration, StoreResult, TrashStore};

impl Row {
    /// Time left until a thread in the trash is purged.
    pub(super) fn left_in_trash(&self, now: Timestamp) -> Duration {
        let left = self.trashed.map_or(0, |(_, purge_at)| purge_at.0.saturating_sub(now.0));
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    fn trashed_thread(&self) -> Option<TrashedThread> {
        let (at, purge_at) = self.trashed?;
        Some(TrashedThread { thread: self.snapshot(), at, purge_at })
    }

    /// True if the thread was last used, or restored, before this time, and no run is active.
    pub(super) fn is_idle(&self, before: Timestamp) -> bool {
        let used = self.sort_at(ListOrder::Recent).max(self.restored_at.unwrap_or(Timestamp(i64::MIN)));
        used < before && self.active().is_none()
    }
}

#[async_trait]
impl TrashStore for MemoryStore {
    async fn trash(
        &self,
        project: &ProjectId,
        keys: &[ThreadKey],
        before: Timestamp,
        grace: Duration,
    ) -> StoreResult<Vec<ThreadKey>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let mut done = Vec::new();
        for key in keys {
            let idle = |row: &Row| row.thread.project == *project && row.is_idle(before);
            if !state.threads.get(key).is_some_and(idle) {
                continue;
            }
            let Some(mut row) = state.threads.remove(key) else { continue };
            row.thread.version += 1;
            row.enter(state.lineage);
            let id = (row.thread.project.clone(), row.thread.id.clone());
            if row.requested {
                state.deleted_requests.insert(id.clone(), now);
            }
            state.ids.remove(&id);
            let feed = state.feeds.entry((id.0, row.thread.user.clone())).or_default();
            feed.deleted.insert(*key, id.1);
            state.jobs.put_anew(JobKind::Purge, *key, now.plus(grace));
            row.trashed = Some((now, now.plus(grace)));
            state.trash.insert(*key, row);
            done.push(*key);
        }
        done.sort();
        Ok(done)
    }

    async fn trashed(&self, project: &ProjectId, after: Option<&ListPosition>, limit: usize) -> StoreResult<TrashPage> {
        let state = self.state();
        let place = |at: Timestamp, id: &ThreadId| (std::cmp::Reverse(at), id.clone());
        let behind = |trashed: &TrashedThread| {
            after.is_none_or(|after| place(trashed.at, &trashed.thread.id) > place(after.at, &after.id))
        };
        let own = state.trash.values().filter(|row| row.thread.project == *project);
        let mut threads: Vec<_> = own.filter_map(Row::trashed_thread).filter(behind).collect();
        threads.sort_by_key(|trashed| place(trashed.at, &trashed.thread.id));
        Ok(TrashPage::of(threads, limit))
    }

    async fn restore(&self, project: &ProjectId, id: &ThreadId, entry: &AuditEntry) -> StoreResult<Restoration> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let own = (project.clone(), id.clone());
        let there = state.ids.get(&own).and_then(|key| state.threads.get(key));
        if let Some(row) = there.filter(|row| row.restored_at.is_some()) {
            return Ok(Restoration::Restored(Box::new(row.snapshot())));
        }
        let taken = there.is_some();
        let same = state.trash.iter().filter(|(_, row)| row.thread.project == *project && row.thread.id == *id);
        let Some(key) = same.max_by_key(|(key, row)| (row.trashed, **key)).map(|(key, _)| *key) else {
            return Ok(Restoration::Absent);
        };
        if taken {
            return Ok(Restoration::Taken);
        }
        let Some(mut row) = state.trash.remove(&key) else { return Ok(Restoration::Absent) };
        row.thread.version += 1;
        (row.restored_at, row.trashed) = (Some(now), None);
        row.enter(state.lineage);
        let thread = row.snapshot();
        state.identity.record(entry.clone());
        state.deleted_requests.remove(&own);
        state.feeds.entry((own.0.clone(), thread.user.clone())).or_default().deleted.remove(&key);
        state.jobs.all.remove(&(JobKind::Purge, JobSubject::Thread(key)));
        state.ids.insert(own, key);
        state.threads.insert(key, row);
        Ok(Restoration::Restored(Box::new(thread)))
    }

    async fn trash_of(&self, project: &ProjectId, user: &UserId, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        let state = self.state();
        let own = state.trash.iter().filter(|(_, row)| row.thread.project == *project && row.thread.user == *user);
        Ok(own.take(limit).map(|(key, _)| *key).collect())
    }

    async fn discard(&self, key: ThreadKey, early: bool) -> StoreResult<bool> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let due = state.trash.get(&key).is_some_and(|row| early || row.left_in_trash(now).is_zero());
        Ok(due && state.trash.remove(&key).is_some())
    }
}
