//! Key-value entries in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use threadline_core::{
    ProjectId, ThreadId, ThreadKey, Timestamp, Usage, UserId,
    kv::{KvEntry, KvNamespace, KvOwner, KvPlace},
    limits::ITEM_OPS_KEPT,
};

use super::{MemoryStore, State, kv_table::Kept};
use crate::{
    KvChange, KvFound, KvRange, KvStore, KvTimes, KvWrite, KvWritten, MovedKv, OwnedPlace, StoreResult,
    kv::{Before, last_writes},
};

/// Counted bytes of an entry, as the limit of a page counts it.
fn on_page(entry: &KvEntry) -> usize {
    usize::try_from(entry.size()).unwrap_or(usize::MAX)
}

impl State {
    fn is_there(&self, kept: &Kept, now: Timestamp) -> bool {
        kept.removed_until.is_none()
            && kept.entry.expires_at.is_none_or(|at| at > now)
            && kept.thread.is_none_or(|thread| self.threads.contains_key(&thread))
    }

    fn entries_of(&self, owner: &KvOwner, now: Timestamp) -> impl Iterator<Item = &Kept> {
        self.kv.get(owner).into_iter().flatten().map(|(_, kept)| kept).filter(move |kept| self.is_there(kept, now))
    }

    fn entry(&self, owner: &KvOwner, place: &KvPlace, now: Timestamp) -> Option<&Kept> {
        self.kv.get(owner)?.get(place).filter(|kept| self.is_there(kept, now))
    }

    fn owner_of(&self, thread: ThreadKey) -> Option<(UserId, ThreadId)> {
        self.threads.get(&thread).map(|row| (row.thread.user.clone(), row.thread.id.clone()))
    }

    /// An entry as conditions see it.
    fn before(&self, owner: &KvOwner, place: &KvPlace, now: Timestamp) -> Option<Before<'_>> {
        let kept = self.kv.get(owner)?.get(place)?;
        let (tag, value) = (kept.entry.tag.as_str(), &*kept.entry.value);
        match kept.removed_until {
            Some(_) => Some(Before::Removed(tag)),
            None => self.is_there(kept, now).then_some(Before::Live { tag, value }),
        }
    }

    /// Bytes of the values of an owner, with those that are not there any more and not removed yet.
    pub(super) fn kv_bytes(&self, project: &ProjectId, user: Option<&UserId>) -> i64 {
        let owner = KvOwner { project: project.clone(), user: user.cloned() };
        self.kv.get(&owner).into_iter().flatten().map(|(_, kept)| kept.entry.size()).sum()
    }

    /// Number of the entries of a user, with those that are not there any more and not removed yet.
    pub(super) fn kv_count(&self, project: &ProjectId, user: &UserId) -> u64 {
        let owner = KvOwner { project: project.clone(), user: Some(user.clone()) };
        self.kv.get(&owner).map_or(0, |entries| entries.len() as u64)
    }

    /// Removes the entries of a user.
    pub(super) fn forget_kv(&mut self, project: &ProjectId, user: &UserId) {
        self.kv.remove(&KvOwner { project: project.clone(), user: Some(user.clone()) });
    }

    /// Removes the entries of a thread, and subtracts those of users from their sums.
    pub(super) fn drop_kv_of(&mut self, thread: ThreadKey) {
        let mut sums = Vec::new();
        for (owner, entries) in &mut self.kv {
            let gone = entries.extract_if(.., |_, kept| kept.thread == Some(thread));
            let bytes = gone.map(|(_, kept)| kept.entry.size()).sum();
            sums.extend(owner.user.clone().map(|user| (owner.project.clone(), user, Usage { bytes, threads: 0 })));
        }
        for (project, user, usage) in sums.into_iter().filter(|(_, _, usage)| usage.bytes > 0) {
            self.add(&project, &user, -usage, Timestamp(0));
        }
    }
}

/// Cuts a page after the entry with which the values reach `bytes`.
fn page<T>(found: impl Iterator<Item = T>, limit: usize, bytes: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut held = 0;
    let mut page = Vec::new();
    for item in found.take(limit) {
        if held >= bytes {
            break;
        }
        held += size(&item);
        page.push(item);
    }
    page
}

#[async_trait]
impl KvStore for MemoryStore {
    async fn kv_entries(&self, owner: &KvOwner, places: &[KvPlace], bytes: usize) -> StoreResult<KvFound> {
        let (now, state) = (self.clock.now(), self.state());
        let found: Vec<_> = places.iter().map(|place| state.entry(owner, place, now)).collect();
        let held: usize = found.iter().flatten().map(|kept| on_page(&kept.entry)).sum();
        Ok((held <= bytes).then(|| found.into_iter().map(|kept| kept.map(|kept| kept.entry.clone())).collect()))
    }

    async fn kv_page(&self, range: KvRange<'_>, after: Option<&KvPlace>, bytes: usize) -> StoreResult<Vec<KvEntry>> {
        let KvRange { owner, prefix, limit } = range;
        let (now, state) = (self.clock.now(), self.state());
        let found = state
            .entries_of(owner, now)
            .map(|kept| &kept.entry)
            .filter(|entry| Some(&entry.place) > after && entry.place.ns.as_str().starts_with(prefix.as_str()));
        Ok(page(found.cloned(), limit, bytes, on_page))
    }

    async fn kv_namespaces(&self, range: KvRange<'_>, after: Option<&KvNamespace>) -> StoreResult<Vec<KvNamespace>> {
        let KvRange { owner, prefix, limit } = range;
        let (now, state) = (self.clock.now(), self.state());
        let mut found: Vec<_> = state
            .entries_of(owner, now)
            .map(|kept| &kept.entry.place.ns)
            .filter(|ns| Some(*ns) > after && ns.as_str().starts_with(prefix.as_str()))
            .cloned()
            .collect();
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    async fn write_kv(&self, owner: &KvOwner, writes: &[KvWrite]) -> StoreResult<KvWritten> {
        let now = self.clock.now();
        let state = &mut *self.state();
        Ok(state.write_kv(owner, writes, now))
    }

    async fn sweep_kv(&self, limit: usize) -> StoreResult<Vec<(KvOwner, i64)>> {
        let now = self.clock.now();
        let state = &mut *self.state();
        let mut gone = Vec::new();
        for (owner, entries) in &mut state.kv {
            entries.retain(|_, kept| {
                let over =
                    gone.len() < limit && kept.removed_until.or(kept.entry.expires_at).is_some_and(|at| at <= now);
                if over {
                    gone.push((owner.clone(), kept.entry.size()));
                }
                !over
            });
        }
        Ok(gone)
    }

    async fn all_kv(&self, after: Option<&OwnedPlace>, limit: usize, bytes: usize) -> StoreResult<Vec<MovedKv>> {
        let (now, state) = (self.clock.now(), self.state());
        let all = state.kv.iter().flat_map(|(owner, entries)| entries.values().map(move |kept| (owner, kept)));
        let found = all.filter(|(_, kept)| state.is_there(kept, now)).filter(|(owner, kept)| {
            after.is_none_or(|after| (*owner, &kept.entry.place) > (&after.owner, &after.place))
        });
        let moved = found.map(|(owner, kept)| MovedKv {
            owner: owner.clone(),
            entry: kept.entry.clone(),
            thread: kept.thread.and_then(|thread| state.owner_of(thread)),
            life: kept.life,
        });
        Ok(page(moved, limit, bytes, |moved| on_page(&moved.entry)))
    }
}

impl State {
    pub(super) fn write_kv(&mut self, owner: &KvOwner, writes: &[KvWrite], now: Timestamp) -> KvWritten {
        let mut existed = Vec::with_capacity(writes.len());
        let last = last_writes(writes);
        for (index, write) in writes.iter().enumerate() {
            let thread = write.put().and_then(|put| put.thread);
            if thread.is_some_and(|thread| !self.threads.contains_key(&thread)) {
                return KvWritten::ThreadGone(index);
            }
            match write.existed(self.before(owner, &write.place, now), &writes[last[index]]) {
                Some(there) => existed.push(there),
                None => return KvWritten::Changed(index),
            }
        }
        let mut added = 0;
        for (index, write) in writes.iter().enumerate().filter(|(index, _)| last[*index] == *index) {
            let entries = self.kv.entry(owner.clone()).or_default();
            let size =
                |entries: &BTreeMap<KvPlace, Kept>| entries.get(&write.place).map_or(0, |kept| kept.entry.size());
            let before = size(entries);
            apply(entries, write, existed[index], now);
            added += size(entries) - before;
        }
        KvWritten::Done { existed, added }
    }
}

/// Carries out the write that takes effect on an entry.
fn apply(entries: &mut BTreeMap<KvPlace, Kept>, write: &KvWrite, existed: bool, now: Timestamp) {
    let place = &write.place;
    match &write.change {
        KvChange::Put(put) => {
            let first = entries.get(place).filter(|_| existed).map_or(now, |old| old.entry.created_at);
            let expires_at = put.life.map(|life| now.plus(life));
            let times = put.times.unwrap_or(KvTimes { created_at: first, updated_at: now, expires_at });
            let entry = KvEntry {
                place: place.clone(),
                value: put.value.clone(),
                tag: put.tag.clone(),
                created_at: times.created_at,
                updated_at: times.updated_at,
                expires_at: times.expires_at,
            };
            let kept = Kept { entry, thread: put.thread, life: put.life, removed_until: None };
            entries.insert(place.clone(), kept);
        }
        KvChange::Delete(None) if existed => drop(entries.remove(place)),
        KvChange::Delete(Some(tag)) if existed => {
            if let Some(kept) = entries.get_mut(place) {
                kept.entry.value = String::new();
                kept.entry.tag = tag.clone();
                kept.removed_until = Some(now.plus(ITEM_OPS_KEPT));
            }
        }
        KvChange::Touch(life) if existed => {
            if let Some(kept) = entries.get_mut(place) {
                kept.life = life.or(kept.life);
                kept.entry.expires_at = kept.life.map(|life| now.plus(life));
            }
        }
        KvChange::Delete(_) | KvChange::Touch(_) => {}
    }
}
