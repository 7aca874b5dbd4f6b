//! Checkpoints of threads in memory.

use async_trait::async_trait;
use threadline_core::{
    ProjectId, RunId, ThreadKey, UserId,
    checkpoints::{
        Blob, ChannelAt, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts, CheckpointPosition, FoundBlob,
        FoundCheckpoint, FoundWrite, StoredCheckpoint, TaskId, TaskWrites, TypedData, WhichCheckpoints,
    },
    kv::KvOwner,
    limits::{LOOSE_BLOBS_KEPT, MAX_THREAD_DATA_BYTES},
};

use super::{
    MemoryStore, Row,
    checkpoint_table::{found as found_write, the_write},
};
use crate::{
    CheckpointBound, CheckpointDone, CheckpointPlace, CheckpointScope, CheckpointStore, DeletedCheckpoints,
    PutCheckpoint, StoreResult,
    checkpoints::{in_order, last_of},
};

impl Row {
    /// Bytes of all agent data.
    pub(super) fn data_bytes(&self) -> i64 {
        self.item_bytes() + self.checkpoints.bytes()
    }

    /// Outcome of a write that adds bytes.
    fn adds(&self, added: i64) -> CheckpointDone {
        if added > 0 && self.data_bytes() + added > MAX_THREAD_DATA_BYTES {
            return CheckpointDone::TooLarge;
        }
        CheckpointDone::Done { added }
    }

    fn found(&self, data: bool, stored: &StoredCheckpoint) -> FoundCheckpoint {
        let mut stored = stored.clone();
        if !data {
            stored.checkpoint.data.body = Vec::new();
        }
        FoundCheckpoint { thread: self.thread.key, thread_id: self.thread.id.clone(), stored }
    }
}

/// Takes a part of what an answer may hold; false if it has no room.
fn takes(left: &mut i64, size: i64) -> bool {
    *left -= size;
    *left >= 0
}

#[async_trait]
impl CheckpointStore for MemoryStore {
    async fn put_blobs(&self, thread: ThreadKey, ns: &CheckpointNs, blobs: &[Blob]) -> StoreResult<CheckpointDone> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&thread) else { return Ok(CheckpointDone::ThreadGone) };
        let all = &row.checkpoints.blobs;
        let asked: Vec<_> = blobs.iter().map(|blob| blob.at.clone()).collect();
        let blobs = in_order(blobs).into_iter().map(|blob| ((ns.clone(), blob.at.clone()), blob));
        let fresh: Vec<_> = blobs.filter(|(place, _)| !all.contains_key(place)).collect();
        let done = row.adds(fresh.iter().map(|(_, blob)| blob.size(ns)).sum());
        if let CheckpointDone::Done { .. } = done {
            let renewed = row.checkpoints.loose.iter_mut().filter(|((of, at), _)| of == ns && asked.contains(at));
            renewed.for_each(|(_, at)| *at = now);
            row.checkpoints.loose.extend(fresh.iter().map(|(place, _)| (place.clone(), now)));
            row.checkpoints.blobs.extend(fresh.into_iter().map(|(place, blob)| (place, blob.clone())));
        }
        Ok(done)
    }

    async fn put_checkpoint(
        &self,
        thread: ThreadKey,
        checkpoint: &Checkpoint,
        put: PutCheckpoint,
    ) -> StoreResult<CheckpointDone> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&thread) else { return Ok(CheckpointDone::ThreadGone) };
        let has = |at: &ChannelAt| row.checkpoints.blobs.contains_key(&(checkpoint.ns.clone(), at.clone()));
        if let Some(missing) = checkpoint.channels.iter().position(|at| !has(at)) {
            return Ok(CheckpointDone::BlobMissing(missing));
        }
        let place = (checkpoint.ns.clone(), checkpoint.id.clone());
        let former = row.checkpoints.all.get(&place);
        let at = match put {
            PutCheckpoint::Keep(_) if former.is_some() => return Ok(CheckpointDone::Done { added: 0 }),
            PutCheckpoint::Keep(at) => at,
            PutCheckpoint::Replace => former.map_or(now, |former| former.at),
        };
        let done = row.adds(checkpoint.size() - former.map_or(0, |former| former.checkpoint.size()));
        if let CheckpointDone::Done { .. } = done {
            let named = |at: &ChannelAt| (checkpoint.ns.clone(), at.clone());
            for at in &checkpoint.channels {
                row.checkpoints.loose.remove(&named(at));
            }
            let former = row.checkpoints.all.insert(place, StoredCheckpoint { checkpoint: checkpoint.clone(), at });
            let dropped = former.into_iter().flat_map(|former| former.checkpoint.channels);
            let dropped = dropped.filter(|at| !checkpoint.channels.contains(at));
            row.checkpoints.loose.extend(dropped.map(|at| (named(&at), now)));
        }
        Ok(done)
    }

    async fn put_writes(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        writes: &TaskWrites,
    ) -> StoreResult<CheckpointDone> {
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&thread) else { return Ok(CheckpointDone::ThreadGone) };
        let (mut added, mut new) = (0, Vec::new());
        for write in last_of(writes) {
            let place = ((ns.clone(), id.clone()), writes.task.clone(), write.idx);
            let former = row.checkpoints.writes.get(&place);
            if former.is_none() || write.idx < 0 {
                added += writes.size(ns, id, write) - former.map_or(0, |row| row.size(ns, id, the_write(row)));
                new.push((place, TaskWrites { writes: vec![write.clone()], ..writes.clone() }));
            }
        }
        let done = row.adds(added);
        if let CheckpointDone::Done { .. } = done {
            row.checkpoints.writes.extend(new);
        }
        Ok(done)
    }

    async fn checkpoints(
        &self,
        scope: &CheckpointScope,
        from: &CheckpointPosition,
        bound: CheckpointBound,
    ) -> StoreResult<Vec<FoundCheckpoint>> {
        let state = self.state();
        let mut all = Vec::new();
        for row in state.threads.values() {
            let (thread, mine) =
                (&row.thread, |user: &Option<UserId>| user.as_ref().is_none_or(|user| *user == row.thread.user));
            let (ns, least) = match scope {
                CheckpointScope::Namespace(key, ns, least) if *key == thread.key => (Some(ns), &**least),
                CheckpointScope::Thread(key) if *key == thread.key => (None, ""),
                CheckpointScope::Project(project, user) if *project == thread.project && mine(user) => (None, ""),
                _ => continue,
            };
            let stored =
                row.checkpoints.all.iter().filter(|((of, id), _)| ns.is_none_or(|ns| ns == of) && id.as_str() >= least);
            all.extend(stored.map(|(_, stored)| row.found(bound.data, stored)));
        }
        all.retain(|found| CheckpointPosition::behind(found) < *from);
        all.sort_by_key(|found| std::cmp::Reverse(CheckpointPosition::behind(found)));
        let mut held = 0;
        let page = all.into_iter().take(bound.limit).take_while(|found| {
            let fits = held < bound.bytes;
            held += found.stored.checkpoint.metadata.len() + found.stored.checkpoint.data.body.len();
            fits
        });
        Ok(page.collect())
    }

    async fn checkpoint_parts(&self, found: &[FoundCheckpoint], bytes: usize) -> StoreResult<Vec<CheckpointParts>> {
        let state = self.state();
        let mut all = vec![CheckpointParts::default(); found.len()];
        let mut left = i64::try_from(bytes).unwrap_or(i64::MAX);
        let rows = || found.iter().map(|found| (state.threads.get(&found.thread), &found.stored.checkpoint));
        for ((row, Checkpoint { ns, id, .. }), parts) in rows().zip(&mut all) {
            let place = (ns.clone(), id.clone());
            let kept =
                row.into_iter().flat_map(|row| row.checkpoints.writes.iter().filter(|((of, ..), _)| *of == place));
            let mut kept: Vec<_> = kept.map(|(_, row)| row).collect();
            kept.sort_by_key(|row| (&row.path, &row.task, the_write(row).idx));
            for row in kept {
                let whole = takes(&mut left, row.size(ns, id, the_write(row)));
                let write = found_write(row);
                parts.writes.push(FoundWrite { body: write.body.filter(|_| whole), ..write });
            }
        }
        left = left.max(0);
        for ((row, Checkpoint { ns, id, .. }), parts) in rows().zip(&mut all) {
            let Some(row) = row else { continue };
            let stored = row.checkpoints.all.get(&(ns.clone(), id.clone()));
            for at in stored.into_iter().flat_map(|stored| &stored.checkpoint.channels) {
                let Some(Blob { at, data }) = row.checkpoints.blobs.get(&(ns.clone(), at.clone())) else { continue };
                let blob = Blob { at: at.clone(), data: data.clone() };
                let whole = takes(&mut left, blob.size(ns));
                parts.blobs.push(FoundBlob {
                    at: blob.at,
                    kind: blob.data.kind,
                    body: Some(blob.data.body).filter(|_| whole),
                });
            }
        }
        Ok(all)
    }

    async fn blob(&self, thread: ThreadKey, ns: &CheckpointNs, at: &ChannelAt) -> StoreResult<Option<TypedData>> {
        let state = self.state();
        let row = state.threads.get(&thread);
        Ok(row.and_then(|row| row.checkpoints.blobs.get(&(ns.clone(), at.clone()))).map(|blob| blob.data.clone()))
    }

    async fn task_write(
        &self,
        thread: ThreadKey,
        ns: &CheckpointNs,
        id: &CheckpointId,
        task: &TaskId,
        idx: i64,
    ) -> StoreResult<Option<FoundWrite>> {
        let state = self.state();
        let place = ((ns.clone(), id.clone()), task.clone(), idx);
        Ok(state.threads.get(&thread).and_then(|row| row.checkpoints.writes.get(&place)).map(found_write))
    }

    async fn delete_checkpoints(
        &self,
        thread: ThreadKey,
        which: &WhichCheckpoints,
        limit: usize,
    ) -> StoreResult<Option<DeletedCheckpoints>> {
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&thread) else { return Ok(None) };
        let before = row.checkpoints.bytes();
        let checkpoints = row.checkpoints.delete(which, limit);
        let bytes = before - row.checkpoints.bytes();
        Ok(Some(DeletedCheckpoints { checkpoints, bytes, more: checkpoints >= limit }))
    }

    async fn sweep_blobs(&self, _limit: usize) -> StoreResult<Option<(KvOwner, i64)>> {
        let before = self.clock.now().minus(LOOSE_BLOBS_KEPT);
        let state = &mut *self.state();
        let mut rows = state.threads.values_mut().chain(state.trash.values_mut());
        Ok(rows.find_map(|row| {
            let bytes = row.checkpoints.sweep(before)?;
            let (project, user) = (row.thread.project.clone(), Some(row.thread.user.clone()));
            Some((KvOwner { project, user }, bytes))
        }))
    }

    async fn checkpoints_of_run(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        run: &RunId,
        limit: usize,
    ) -> StoreResult<Vec<CheckpointPlace>> {
        let state = self.state();
        let rows = state
            .threads
            .values()
            .filter(|row| row.thread.project == *project && user.is_none_or(|user| *user == row.thread.user));
        let places = rows.flat_map(|row| {
            let of_run = row.checkpoints.all.iter().filter(|(_, stored)| stored.checkpoint.run.as_ref() == Some(run));
            of_run.map(|((ns, id), _)| CheckpointPlace {
                thread: row.thread.key,
                user: row.thread.user.clone(),
                ns: ns.clone(),
                id: id.clone(),
            })
        });
        Ok(places.take(limit).collect())
    }
}
