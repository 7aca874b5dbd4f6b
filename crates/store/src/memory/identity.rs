//! Authentication, administration, retention and erasure.

use std::collections::BTreeMap;

use async_trait::async_trait;
use threadline_core::{
    ApiKey, AuditEntry, Cutoff, CutoffKind, Digest, Footprint, KeyId, ListOrder, ProjectId, Timestamp, UserId,
};

use super::{MemoryStore, Row};
use crate::{
    DigestKey, ErasureStore, IdentityStore, IdlePage, IdlePlace, SecretForm, SecretName, SecretStore, StoreResult,
    StoredProject, credentials::log_entry,
};

#[derive(Debug, Clone, Default)]
pub(super) struct Identity {
    projects: BTreeMap<ProjectId, StoredProject>,
    keys: BTreeMap<Digest, ApiKey>,
    tickets: BTreeMap<Digest, (String, Timestamp)>,
    pub(super) cutoffs: BTreeMap<(ProjectId, CutoffKind, Digest), Cutoff>,
    pub(super) audit: Audit,
}

/// The audit of all projects, with the numbers of the entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Audit {
    entries: Vec<(i64, AuditEntry)>,
    newest: i64,
}

impl Audit {
    /// Entries of a project, the oldest first.
    pub(super) fn of(&self, project: &ProjectId) -> impl DoubleEndedIterator<Item = (i64, &AuditEntry)> {
        let own = self.entries.iter().filter(move |(_, entry)| entry.project == *project);
        own.map(|(number, entry)| (*number, entry))
    }

    /// Removes those of the oldest `limit` entries of a project that are older than a time. Returns their number.
    pub(super) fn forget(&mut self, project: &ProjectId, before: Timestamp, limit: usize) -> usize {
        let oldest = self.of(project).take(limit).filter(|(_, entry)| entry.at < before);
        let old: Vec<_> = oldest.map(|(number, _)| number).collect();
        self.entries.retain(|(number, _)| !old.contains(number));
        old.len()
    }
}

impl Extend<AuditEntry> for Audit {
    fn extend<T: IntoIterator<Item = AuditEntry>>(&mut self, entries: T) {
        for entry in entries {
            log_entry(&entry);
            self.newest += 1;
            self.entries.push((self.newest, entry));
        }
    }
}

impl Identity {
    /// All API keys with their digests, by project and id.
    pub(super) fn all_keys(&self) -> Vec<(ApiKey, Digest)> {
        let mut keys: Vec<_> = self.keys.iter().map(|(digest, key)| (key.clone(), *digest)).collect();
        keys.sort_by(|(a, _), (b, _)| (&a.project, &a.id).cmp(&(&b.project, &b.id)));
        keys
    }
}

impl Identity {
    /// Invalidates all tickets: one that was used may have come back.
    pub(super) fn forget_tickets(&mut self) {
        self.tickets.clear();
    }

    pub(super) fn record(&mut self, entry: AuditEntry) {
        self.audit.extend([entry]);
    }

    pub(super) fn key_mut(&mut self, project: &ProjectId, id: &KeyId) -> Option<&mut ApiKey> {
        self.keys.values_mut().find(|key| key.project == *project && key.id == *id)
    }
}

#[async_trait]
impl IdentityStore for MemoryStore {
    async fn projects(&self) -> StoreResult<Vec<StoredProject>> {
        Ok(self.state().identity.projects.values().cloned().collect())
    }

    async fn put_project(&self, project: &StoredProject, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let Identity { projects, audit, .. } = &mut self.state().identity;
        let found = projects.get(&project.id).map_or(0, |found| found.version);
        let fits = project.version == found + 1;
        if fits {
            projects.insert(project.id.clone(), project.clone());
            audit.extend(entry.cloned());
        }
        Ok(fits)
    }

    async fn put_key(&self, key: &ApiKey, digest: &Digest, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let Identity { keys, audit, .. } = &mut self.state().identity;
        let taken = keys.values().any(|other| (&other.project, &other.id) == (&key.project, &key.id));
        if taken || keys.contains_key(digest) {
            return Ok(false);
        }
        keys.insert(*digest, key.clone());
        audit.extend(entry.cloned());
        Ok(true)
    }

    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>> {
        Ok(self.state().identity.keys.get(digest).cloned())
    }

    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>> {
        let state = self.state();
        let mut keys: Vec<_> = state.identity.keys.values().filter(|key| key.project == *project).cloned().collect();
        keys.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(keys)
    }

    async fn revoke_key(
        &self,
        project: &ProjectId,
        id: &KeyId,
        at: Timestamp,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Option<ApiKey>> {
        let Identity { keys, audit, .. } = &mut self.state().identity;
        let found = keys.values_mut().find(|key| key.project == *project && key.id == *id);
        Ok(found.map(|key| {
            if key.revoked_at.is_none() {
                key.revoked_at = Some(at);
                audit.extend(entry.cloned());
            }
            key.clone()
        }))
    }

    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()> {
        let tickets = &mut self.state().identity.tickets;
        tickets.retain(|_, (_, until)| now < *until);
        tickets.insert(*digest, (bearer.to_owned(), until));
        Ok(())
    }

    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool> {
        self.state().identity.tickets.retain(|_, (_, until)| now < *until);
        Ok(false)
    }

    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>> {
        let found = self.state().identity.tickets.remove(digest);
        Ok(found.filter(|(_, until)| now < *until).map(|(bearer, _)| bearer))
    }

    async fn record(&self, entry: &AuditEntry) -> StoreResult<()> {
        self.state().identity.record(entry.clone());
        Ok(())
    }

    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        let state = self.state();
        let newest_first = state.identity.audit.of(project).rev();
        let wanted = newest_first.filter(|(number, _)| before.is_none_or(|before| *number < before));
        Ok(wanted.take(limit).map(|(number, entry)| (number, entry.clone())).collect())
    }
}

/// Memory needs no keys: its data ends with the process.
#[async_trait]
impl SecretStore for MemoryStore {
    fn digest_key(&self, purpose: &str) -> StoreResult<DigestKey> {
        Ok(DigestKey::derive("memory", purpose))
    }

    fn sealing_key(&self) -> Option<String> {
        None
    }

    async fn secret_forms(&self) -> StoreResult<Vec<(SecretName, SecretForm)>> {
        let state = self.state();
        let projects = state.identity.projects.keys().cloned().map(SecretName::Project);
        let agents = state.agents.keys().cloned().map(|(project, id)| SecretName::Agent(project, id));
        Ok(projects.chain(agents).map(|name| (name, SecretForm::Unsealed)).collect())
    }

    async fn reseal(&self) -> StoreResult<u64> {
        Ok(0)
    }
}

#[async_trait]
impl ErasureStore for MemoryStore {
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<IdlePlace>,
        window: usize,
    ) -> StoreResult<IdlePage> {
        let state = self.state();
        let place = |row: &Row| IdlePlace { at: row.sort_at(ListOrder::Recent), key: row.thread.key };
        let old = |row: &&Row| row.thread.project == *project && place(row).at < before && Some(place(row)) > after;
        let mut rows: Vec<_> = state.threads.values().filter(old).collect();
        rows.sort_by_key(|row| place(row));
        rows.truncate(window);
        let next = rows.last().filter(|_| rows.len() == window).map(|row| place(row));
        let threads =
            rows.into_iter().filter(|row| row.is_idle(before) && state.is_family_idle(row, before)).map(Row::snapshot);
        Ok(IdlePage { threads: threads.collect(), next })
    }

    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint> {
        let state = self.state();
        let feed = state.feeds.get(&(project.clone(), user.clone()));
        let mut print =
            Footprint { feed_entries: feed.map_or(0, |feed| feed.entries.len() as u64), ..Footprint::default() };
        let trash = state.trash.values().map(|row| &row.thread);
        print.tombstones = trash.filter(|thread| thread.project == *project && thread.user == *user).count() as u64;
        let fed = feed.into_iter().flat_map(|feed| feed.deleted.keys());
        print.tombstones += fed.filter(|key| !state.trash.contains_key(key)).count() as u64;
        let own = state.threads.values().filter(|row| row.thread.project == *project && row.thread.user == *user);
        for row in own {
            print.threads += 1;
            print.runs += row.runs.len() as u64;
            print.events += row.thread.tail;
            print.snapshots += row.snapshots.len() as u64;
            print.annotations += row.annotations.len() as u64;
        }
        print.kv_entries = state.kv_count(project, user);
        print.streams = state.stream_count(project, user);
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let state = &mut *self.state();
        state.feeds.remove(&(project.clone(), user.clone()));
        state.forget_usage(project, user);
        state.forget_kv(project, user);
        state.forget_streams(project, user);
        Ok(())
    }
}
