//! Data next to the log: snapshots, annotations and agents.

use async_trait::async_trait;
use threadline_core::{AgentId, Annotation, AuditEntry, NewAnnotation, ProjectId, Seq, ThreadKey};

use super::MemoryStore;
use crate::{AgentStore, AnnotationStore, Snapshot, SnapshotStore, StoreResult, Unprojected};

#[async_trait]
impl SnapshotStore for MemoryStore {
    async fn put_snapshot(&self, key: ThreadKey, snapshot: Snapshot, dropped: &[Seq]) -> StoreResult<()> {
        let state = &mut *self.state();
        if let Some(row) = state.threads.get_mut(&key) {
            row.snapshots.retain(|seq, _| !dropped.contains(seq));
            row.snapshots.insert(snapshot.seq, snapshot);
        }
        Ok(())
    }

    async fn snapshot(&self, key: ThreadKey, at: Seq, version: u32) -> StoreResult<Option<Snapshot>> {
        let state = self.state();
        let Some(row) = state.threads.get(&key) else { return Ok(None) };
        Ok(row.snapshots.range(..=at).rev().map(|entry| entry.1).find(|found| found.version == version).cloned())
    }

    async fn snapshot_seqs(&self, key: ThreadKey) -> StoreResult<Vec<(Seq, u32)>> {
        let state = self.state();
        let snapshots = state.threads.get(&key).map(|row| &row.snapshots);
        Ok(snapshots.into_iter().flatten().map(|(seq, snapshot)| (*seq, snapshot.version)).collect())
    }

    async fn unprojected(&self, key: ThreadKey, version: u32) -> StoreResult<Option<Unprojected>> {
        let newest = self.snapshot(key, Seq::MAX, version).await?;
        let (since, snapshot_bytes) = newest.map_or((0, 0), |found| (found.seq, found.body.len() as u64));
        let state = self.state();
        let Some(row) = state.threads.get(&key) else { return Ok(None) };
        let mut bytes = 0;
        for log in row.log.iter().filter(|log| log.last_seq > since) {
            let batches = log.clone().unpack()?;
            // The newlines between the batches of a segment count as well.
            let raw = batches.iter().map(|batch| batch.body.len() as u64 + 1).sum::<u64>() - 1;
            bytes += raw * (log.last_seq - since.max(log.first_seq - 1)) / (log.last_seq - log.first_seq + 1);
        }
        Ok(Some(Unprojected { since, snapshot_bytes, events: row.thread.tail.saturating_sub(since), bytes }))
    }
}

#[async_trait]
impl AnnotationStore for MemoryStore {
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let Some(row) = state.threads.get_mut(&key) else { return Ok(None) };
        let known = row.annotations.iter().any(|own| own.id == annotation.id);
        if !known {
            row.annotations.push(annotation.made(now));
        }
        Ok(Some(!known))
    }

    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>> {
        let state = self.state();
        let Some(row) = state.threads.get(&key) else { return Ok(None) };
        let numbered = (1..).zip(&row.annotations).filter(|(number, _)| *number > after);
        Ok(Some(numbered.take(limit).map(|(number, annotation)| (number, annotation.clone())).collect()))
    }
}

#[async_trait]
impl AgentStore for MemoryStore {
    async fn put_agent(
        &self,
        project: &ProjectId,
        id: &AgentId,
        definition: &str,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<()> {
        let mut state = self.state();
        state.agents.insert((project.clone(), id.clone()), definition.to_owned());
        state.identity.audit.extend(entry.cloned());
        Ok(())
    }

    async fn agents(&self, project: &ProjectId) -> StoreResult<Vec<(AgentId, String)>> {
        let state = self.state();
        let own = state.agents.iter().filter(|((owner, _), _)| owner == project);
        Ok(own.map(|((_, id), definition)| (id.clone(), definition.clone())).collect())
    }

    async fn delete_agent(&self, project: &ProjectId, id: &AgentId, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let mut state = self.state();
        let found = state.agents.remove(&(project.clone(), id.clone())).is_some();
        state.identity.audit.extend(entry.cloned().filter(|_| found));
        Ok(found)
    }
}
