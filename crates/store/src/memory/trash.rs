//! The trash: rows beside the threads.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use threadline_core::{
    AuditEntry, ListOrder, ProjectId, ThreadId, ThreadKey, Timestamp, TrashPage, TrashPosition, TrashedThread, UserId,
};

use super::{MemoryStore, Row};
use crate::{JobKind, JobSubject, Named, Restoration, StoreResult, TrashStore};

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
            let idle =
                |row: &&Row| row.thread.project == *project && row.is_idle(before) && state.is_family_idle(row, before);
            if state.threads.get(key).filter(idle).is_none() {
                continue;
            }
            let Some(mut row) = state.threads.remove(key) else { continue };
            row.thread.version += 1;
            row.enter(state.lineage);
            let id = (row.thread.project.clone(), row.thread.id.clone());
            if row.requested {
                state.deleted_requests.insert(id.clone(), now);
            }
            state.ids.remove(&row.thread);
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

    async fn trashed(
        &self,
        project: &ProjectId,
        after: Option<&TrashPosition>,
        limit: usize,
    ) -> StoreResult<TrashPage> {
        let state = self.state();
        let place = |at: Timestamp, id: &ThreadId, user: &UserId| (std::cmp::Reverse(at), id.clone(), user.clone());
        let place_of = |trashed: &TrashedThread| place(trashed.at, &trashed.thread.id, &trashed.thread.user);
        let behind = |trashed: &TrashedThread| {
            after.is_none_or(|after| place_of(trashed) > place(after.at, &after.id, &after.user))
        };
        let own = state.trash.values().filter(|row| row.thread.project == *project);
        let mut threads: Vec<_> = own.filter_map(Row::trashed_thread).filter(behind).collect();
        threads.sort_by_key(place_of);
        Ok(TrashPage::of(threads, limit))
    }

    async fn restore(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        id: &ThreadId,
        entry: &AuditEntry,
    ) -> StoreResult<Restoration> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let own = (project.clone(), id.clone());
        let same = |row: &Row| row.thread.project == *project && row.thread.id == *id;
        let user = match user {
            Some(user) => user.clone(),
            None => {
                let users: BTreeSet<_> =
                    state.trash.values().filter(|row| same(row)).map(|row| row.thread.user.clone()).collect();
                match (users.len(), users.into_iter().next()) {
                    (1, Some(user)) => user,
                    (0, _) => match Named::among(state.named(project, id).into_iter().map(Row::snapshot).collect()) {
                        Named::Absent => return Ok(Restoration::Absent),
                        Named::Ambiguous => return Ok(Restoration::Ambiguous),
                        Named::Thread(thread) => thread.user,
                    },
                    _ => return Ok(Restoration::Ambiguous),
                }
            }
        };
        let there = state.own(project, &user, id);
        if let Some(row) = there.filter(|row| row.restored_at.is_some()) {
            return Ok(Restoration::Restored(Box::new(row.snapshot())));
        }
        let trashed = state.trash.iter().filter(|(_, row)| same(row) && row.thread.user == user);
        let Some((key, row)) = trashed.max_by_key(|(key, row)| (row.trashed, **key)) else {
            return Ok(Restoration::Absent);
        };
        let key = *key;
        if state.taken(project, &user, id, row.thread.claimed).is_some() {
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
        state.ids.insert(&thread);
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
        if !state.trash.get(&key).is_some_and(|row| early || row.left_in_trash(now).is_zero()) {
            return Ok(false);
        }
        let Some(row) = state.trash.remove(&key) else { return Ok(false) };
        state.charge(&row.thread, -row.usage());
        state.drop_kv_of(key);
        Ok(true)
    }
}
