//! Key-value entries: batches of reads and writes.

use std::sync::Arc;

use serde_json::Value;
use threadline_core::{
    Principal,
    kv::{KvEntry, KvFilter, KvNamespace, KvOwner, KvPlace, KvWords, NamespaceMatch, Tag},
    limits::{
        AGENT_DATA_ANSWER_BYTES, KV_COMPARED_BYTES, KV_SCANNED, LONG_INPUT_BYTES, MAX_KV_VALUE_BYTES, WORK_SLICE_BYTES,
        WORK_SLICE_ROWS,
    },
};
use threadline_store::{KvChange, KvRange, KvWrite, KvWritten, StoreError};

use super::{AgentDataDeps, AnswerRoom, ROUNDS, entry_writes::WriteEntry};
use crate::{
    AgentDataError,
    limits::{Limited, QueuedWork, in_place},
    metrics::AgentTable,
    records::ThreadRef,
};

/// Bytes that are compared with a word in the time of one byte of events.
const COMPARED: usize = KV_COMPARED_BYTES / WORK_SLICE_BYTES;

/// Use cases of key-value entries.
#[derive(Clone)]
pub struct KvEntries {
    pub(crate) deps: Arc<AgentDataDeps>,
}

/// An operation of a batch.
#[derive(Debug, Clone)]
pub enum KvOp {
    /// Reads an entry by its place.
    Get(KvPlace),
    /// Stores, removes or touches an entry.
    Write(WriteEntry),
    /// Searches the entries of a range.
    Search(KvSearch),
    /// Lists namespaces that have entries.
    Namespaces(ListNamespaces),
}

/// Search for entries of an owner.
#[derive(Debug, Clone)]
pub struct KvSearch {
    /// Namespace with which those of the entries begin.
    pub prefix: KvNamespace,
    /// Conditions on the values.
    pub filter: KvFilter,
    /// Words by which entries are found and sorted.
    pub words: Option<KvWords>,
    /// Most entries that are returned.
    pub limit: usize,
    /// Entries to skip after that place; with words, among the matches that one search compares.
    pub offset: usize,
    /// Place after which the search begins.
    pub after: Option<KvPlace>,
}

/// List of the namespaces of an owner.
#[derive(Debug, Clone)]
pub struct ListNamespaces {
    /// Conditions, all of which must hold.
    pub matching: Vec<NamespaceMatch>,
    /// Labels after which namespaces are cut.
    pub max_depth: Option<usize>,
    /// Most namespaces that are returned.
    pub limit: usize,
    /// Namespaces to skip after that place.
    pub offset: usize,
    /// Namespace after which the list begins.
    pub after: Option<KvNamespace>,
}

/// Result of an operation.
#[derive(Debug, Clone)]
pub enum KvDone {
    /// The entry that was read.
    Got(Option<KvEntry>),
    /// Tag of the entry that was stored.
    Put(Tag),
    /// True if there was an entry to remove.
    Deleted(bool),
    /// True if there was an entry to touch.
    Touched(bool),
    /// Entries that were found.
    Found(FoundEntries),
    /// Namespaces that have entries.
    Namespaces {
        /// Namespaces in order, without repetitions.
        namespaces: Vec<KvNamespace>,
        /// Namespaces that were looked at.
        scanned: usize,
        /// Namespace after which the list continues, with the number of namespaces to skip there.
        next: Option<(KvNamespace, usize)>,
    },
}

/// Result of a search.
#[derive(Debug, Clone, Default)]
pub struct FoundEntries {
    /// Entries with their scores, the best first; without words in the order of their places.
    pub entries: Vec<(KvEntry, Option<f64>)>,
    /// Entries that were looked at.
    pub scanned: usize,
    /// Place after which the search continues, with the number of entries to skip there.
    pub next: Option<(KvPlace, usize)>,
}

impl KvEntries {
    /// Carries out a batch: first the reads, then all writes in one commit, or none. Results are in the order of the operations.
    pub async fn run(&self, principal: &Principal, ops: &[KvOp]) -> Result<Vec<KvDone>, AgentDataError> {
        let owner = KvOwner { project: principal.project.clone(), user: principal.user.clone() };
        let writes = ops.iter().any(|op| matches!(op, KvOp::Write(_)));
        if writes {
            self.deps.refuse_if_draining()?;
            if ops.iter().any(|op| matches!(op, KvOp::Write(write) if write.put().is_some())) {
                self.deps.admit(principal).await?;
            }
        }
        let mut room = AnswerRoom::new();
        let mut results: Vec<Option<KvDone>> = vec![None; ops.len()];
        self.get(&owner, ops, &mut results, &mut room).await?;
        if ops.iter().any(|op| matches!(op, KvOp::Search(_) | KvOp::Namespaces(_))) {
            let mut work = self.deps.queue.begin(principal).await?;
            for (op, result) in ops.iter().zip(&mut results) {
                *result = match op {
                    KvOp::Search(search) => Some(self.search(&owner, search, &mut work, &mut room).await?),
                    KvOp::Namespaces(list) => Some(self.namespaces(&owner, list, &mut work).await?),
                    KvOp::Get(_) | KvOp::Write(_) => continue,
                };
            }
        }
        if writes {
            self.write(principal, &owner, ops, &mut results).await?;
        }
        Ok(results.into_iter().flatten().collect())
    }

    async fn get(
        &self,
        owner: &KvOwner,
        ops: &[KvOp],
        results: &mut [Option<KvDone>],
        room: &mut AnswerRoom,
    ) -> Result<(), AgentDataError> {
        let gets = ops.iter().enumerate().filter_map(|(index, op)| match op {
            KvOp::Get(place) => Some((index, place.clone())),
            KvOp::Write(_) | KvOp::Search(_) | KvOp::Namespaces(_) => None,
        });
        let (indexes, places): (Vec<_>, Vec<_>) = gets.unzip();
        if places.is_empty() {
            return Ok(());
        }
        let found = self.deps.store.kv_entries(owner, &places, AGENT_DATA_ANSWER_BYTES).await?;
        for (index, entry) in indexes.into_iter().zip(found.ok_or(AgentDataError::AnswerTooLarge)?) {
            room.take(entry.as_ref().map_or(0, |entry| entry.value.len()));
            results[index] = Some(KvDone::Got(entry));
        }
        Ok(())
    }

    /// Looks at entries in order, each page in a slice of the queue or several. Without words the search ends with its last entry; with words
    /// all entries of the part that is scanned are compared.
    async fn search(
        &self,
        owner: &KvOwner,
        search: &KvSearch,
        work: &mut QueuedWork,
        room: &mut AnswerRoom,
    ) -> Result<KvDone, AgentDataError> {
        let wanted = search.offset.saturating_add(search.limit);
        // A page ends with the value that reaches its bytes.
        let most = room.left().saturating_sub(MAX_KV_VALUE_BYTES);
        if most == 0 {
            return Err(AgentDataError::AnswerTooLarge);
        }
        let (mut found, mut scanned, mut bytes) = (Vec::new(), 0, 0);
        // A cursor of another search may lie before the range of this one.
        let mut next = search.after.clone().filter(|after| after.ns.as_str() >= search.prefix.as_str());
        let range = |limit| KvRange { owner, prefix: &search.prefix, limit };
        let ended = loop {
            if scanned >= KV_SCANNED || bytes >= most || (search.words.is_none() && found.len() >= wanted) {
                break false;
            }
            work.go_on().await?;
            let rows = WORK_SLICE_ROWS.min(KV_SCANNED - scanned);
            let rows = if search.is_plain() { rows.min(wanted - found.len()) } else { rows };
            let room = (most - bytes).min(WORK_SLICE_BYTES);
            let page = self.deps.store.kv_page(range(rows), next.as_ref(), room).await?;
            let size = page.iter().map(|entry| entry.value.len()).sum::<usize>();
            work.done(size, page.len());
            let Some(last) = page.last() else { break true };
            let last = last.place.clone();
            (scanned, bytes) = (scanned + page.len(), bytes + size);
            for entry in page {
                let here = entry.place.clone();
                if let Some(score) = search.score(&entry, work).await? {
                    found.push((entry, score));
                    if search.words.is_none() && found.len() == wanted {
                        next = Some(here);
                        break;
                    }
                }
                next = Some(here);
            }
            if next.as_ref() != Some(&last) {
                break false;
            }
        };
        let left = if search.words.is_some() { 0 } else { search.offset.saturating_sub(found.len()) };
        // The order of places decides between equal scores.
        found.sort_by(|(_, one), (_, other)| other.partial_cmp(one).unwrap_or(std::cmp::Ordering::Equal));
        let entries: Vec<_> = found.into_iter().skip(search.offset).take(search.limit).collect();
        room.take(entries.iter().map(|(entry, _)| entry.value.len()).sum());
        Ok(KvDone::Found(FoundEntries { entries, scanned, next: next.filter(|_| !ended).map(|next| (next, left)) }))
    }

    async fn namespaces(
        &self,
        owner: &KvOwner,
        list: &ListNamespaces,
        work: &mut QueuedWork,
    ) -> Result<KvDone, AgentDataError> {
        let root =
            list.matching.iter().map(NamespaceMatch::root).max_by_key(|root| root.labels().len()).unwrap_or_default();
        let wanted = list.offset.saturating_add(list.limit);
        let (mut namespaces, mut scanned): (Vec<KvNamespace>, usize) = (Vec::new(), 0);
        // A cursor of another list may lie before the range of this one.
        let mut next = list.after.clone().filter(|after| after.as_str() >= root.as_str());
        let cut = |ns: &KvNamespace| list.max_depth.map_or_else(|| ns.clone(), |depth| ns.first(depth));
        let takes = |ns: &KvNamespace| list.matching.iter().all(|condition| condition.takes(&ns.labels()));
        // A part that was listed before is not listed again for the rest of its namespaces.
        let before = next.as_ref().filter(|ns| takes(ns)).map(cut);
        let ended = 'all: loop {
            if scanned >= KV_SCANNED {
                break false;
            }
            work.go_on().await?;
            let rows = WORK_SLICE_ROWS.min(KV_SCANNED - scanned);
            let page =
                self.deps.store.kv_namespaces(KvRange { owner, prefix: &root, limit: rows }, next.as_ref()).await?;
            work.done(page.iter().map(|ns| ns.as_str().len()).sum(), page.len());
            if page.is_empty() {
                break true;
            }
            for ns in page {
                let part = cut(&ns);
                if takes(&ns) && namespaces.last() != Some(&part) && before.as_ref() != Some(&part) {
                    if namespaces.len() == wanted {
                        break 'all false;
                    }
                    namespaces.push(part);
                }
                scanned += 1;
                next = Some(ns);
            }
        };
        let next = next.filter(|_| !ended).map(|next| (next, list.offset.saturating_sub(namespaces.len())));
        let namespaces = namespaces.into_iter().skip(list.offset).collect();
        Ok(KvDone::Namespaces { namespaces, scanned, next })
    }

    async fn write(
        &self,
        principal: &Principal,
        owner: &KvOwner,
        ops: &[KvOp],
        results: &mut [Option<KvDone>],
    ) -> Result<(), AgentDataError> {
        let writes = ops.iter().enumerate().filter_map(|(index, op)| match op {
            KvOp::Write(write) => Some((index, write)),
            KvOp::Get(_) | KvOp::Search(_) | KvOp::Namespaces(_) => None,
        });
        let (indexes, asked): (Vec<_>, Vec<_>) = writes.unzip();
        let written = self.write_all(principal, owner, &asked).await;
        let (writes, existed) = written.map_err(|error| match error {
            AgentDataError::KvChanged { index } => AgentDataError::KvChanged { index: indexes[index] },
            error => error,
        })?;
        for ((index, write), existed) in indexes.into_iter().zip(writes).zip(existed) {
            results[index] = Some(match write.change {
                KvChange::Put(put) => KvDone::Put(put.tag),
                KvChange::Delete(_) => KvDone::Deleted(existed),
                KvChange::Touch(_) => KvDone::Touched(existed),
            });
        }
        Ok(())
    }

    /// Carries out all writes; returns them as stored, and for each of them, whether there was an entry before.
    async fn write_all(
        &self,
        principal: &Principal,
        owner: &KvOwner,
        asked: &[&WriteEntry],
    ) -> Result<(Vec<KvWrite>, Vec<bool>), AgentDataError> {
        for _ in 0..ROUNDS {
            let (writes, threads) = self.deps.to_store(principal, None, asked.iter().copied()).await?;
            let written = {
                let _turn = self.deps.turn().await?;
                self.deps.store.write_kv(owner, &writes).await?
            };
            match written {
                KvWritten::Done { existed, added } => {
                    self.deps.note(principal, owner.user.as_ref(), added);
                    let bytes = writes.iter().filter_map(KvWrite::put).map(|put| put.value.len()).sum();
                    self.deps.metrics.agent_data.wrote(AgentTable::Kv, bytes);
                    return Ok((writes, existed));
                }
                KvWritten::Changed(index) => return Err(AgentDataError::KvChanged { index }),
                KvWritten::ThreadGone(index) => {
                    threads[index].iter().for_each(|thread: &Arc<ThreadRef>| self.deps.directory.forget(thread));
                }
            }
        }
        Err(StoreError::Unavailable("the thread is deleted and created again all the time".to_owned()).into())
    }
}

impl KvSearch {
    /// True if every entry is found.
    fn is_plain(&self) -> bool {
        self.words.is_none() && self.filter.is_empty()
    }

    /// Score of an entry; `None` if it is not found. Without words there is none inside.
    async fn score(&self, entry: &KvEntry, work: &mut QueuedWork) -> Result<Option<Option<f64>>, Limited> {
        let bytes = entry.value.len();
        if self.is_plain() {
            return Ok(Some(None));
        }
        if !aside(bytes, || self.filter.takes(&entry.value)) {
            return Ok(None);
        }
        let Some(words) = &self.words else { return Ok(Some(None)) };
        // The store holds a value that was JSON on arrival. What no `Value` can hold has no words.
        let compare = || serde_json::from_str::<Value>(&entry.value).ok().map(|value| words.compare(&value));
        let Some(mut comparison) = aside(bytes, compare) else { return Ok(None) };
        loop {
            work.go_on().await?;
            let cost = comparison.rest().min(KV_COMPARED_BYTES) / COMPARED;
            let Some(compared) = aside(cost, || comparison.go_on(KV_COMPARED_BYTES)) else { break };
            work.done(compared / COMPARED, 0);
        }
        Ok(Some(comparison.score()).filter(|score| *score > 0.0).map(Some))
    }
}

/// Does work over this many bytes of a value: no other task waits for that over a large one.
fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LONG_INPUT_BYTES { work() } else { in_place(work) }
}
