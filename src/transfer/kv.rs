//! Export and import of key-value entries. An entry that exists already stays unchanged.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    ProjectId, ThreadId, ThreadKey, Timestamp, UserId,
    kv::{KvError, KvKey, KvNamespace, KvOwner, KvPlace, Tag, kv_value},
    limits::{AGENT_DATA_ANSWER_BYTES, MAX_PAGE},
};
use threadline_store::{KvChange, KvPut, KvTimes, KvWrite, KvWritten, MovedKv, OwnedPlace, StoreError, TransferStore};

use super::{
    annotations::Taken,
    directory::{Directory, Facts, KV, NewFile},
    error::{Damage, TransferError},
    format::raw,
    manifest::{FileEntry, ThreadName, Threads},
    reading::Lines,
    selection::Selection,
};

/// Entries that one commit of an import stores, and the bytes of values after which it stores them.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 1_024 * 1_024;

/// Line with an entry: `{"entry":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryLine {
    entry: EntryFacts,
}

/// Thread with which an entry goes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ThreadOfEntry {
    thread_id: ThreadId,
    /// User who owns the thread, if it has not claimed its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
}

/// Key-value entry with its owner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntryFacts {
    project_id: ProjectId,
    /// User who owns the entry; absent for an entry of the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    ns: Vec<String>,
    key: String,
    value: Box<RawValue>,
    tag: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Time after which the entry expires when it is touched; by default the one between its last write and its expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadOfEntry>,
}

/// An entry of a file: its owner, its thread, and the write that stores it.
#[derive(Debug)]
pub struct ReadEntry {
    owner: KvOwner,
    thread: Option<ThreadName>,
    place: KvPlace,
    put: KvPut,
}

impl EntryFacts {
    fn of(moved: MovedKv, thread: Option<ThreadName>) -> Result<Self, StoreError> {
        let MovedKv { owner, entry, life, .. } = moved;
        Ok(Self {
            project_id: owner.project,
            user_id: owner.user,
            ns: entry.place.ns.labels().into_iter().map(str::to_owned).collect(),
            key: entry.place.key.as_str().to_owned(),
            value: raw(entry.value)?,
            tag: entry.tag.as_str().to_owned(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            expires_at: entry.expires_at,
            ttl_ms: life.and_then(|life| u64::try_from(life.as_millis()).ok()),
            thread: thread.map(|(_, thread_id, user_id)| ThreadOfEntry { thread_id, user_id }),
        })
    }
}

impl EntryLine {
    /// Reads the entry of the line.
    pub fn entry(self) -> Result<ReadEntry, KvError> {
        let facts = self.entry;
        let place = KvPlace { ns: KvNamespace::new(&facts.ns)?, key: KvKey::new(facts.key)? };
        let times =
            KvTimes { created_at: facts.created_at, updated_at: facts.updated_at, expires_at: facts.expires_at };
        let (value, tag) = (kv_value(&facts.value)?, Tag::new(facts.tag)?);
        let since = |at: Timestamp| u64::try_from(at.0.saturating_sub(facts.updated_at.0)).ok();
        let life = facts.ttl_ms.or_else(|| facts.expires_at.and_then(since)).map(Duration::from_millis);
        let put = KvPut { value, tag, life, thread: None, times: Some(times) };
        let thread = facts.thread.map(|thread| (facts.project_id.clone(), thread.thread_id, thread.user_id));
        Ok(ReadEntry { owner: KvOwner { project: facts.project_id, user: facts.user_id }, thread, place, put })
    }
}

/// Name of an exported thread; `None` if the thread is not exported.
fn exported(threads: &Threads, project: &ProjectId, user: &UserId, id: &ThreadId) -> Option<ThreadName> {
    let names = [None, Some(user.clone())].map(|user| (project.clone(), id.clone(), user));
    names.into_iter().find(|name| threads.get(name).is_some_and(|entry| entry.user_id == *user))
}

/// Writes the entries of the exported owners and threads, in the order of their places. Returns `None`, and leaves no file, if there
/// are none.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    selection: &Selection,
    threads: &Threads,
) -> Result<Option<FileEntry>, TransferError> {
    let (mut file, mut count) = (None, 0);
    let mut after = None;
    loop {
        let page = store.all_kv(after.as_ref(), MAX_PAGE, AGENT_DATA_ANSWER_BYTES).await?;
        let Some(last) = page.last() else { break };
        after = Some(OwnedPlace { owner: last.owner.clone(), place: last.entry.place.clone() });
        for moved in page {
            let owner = &moved.owner;
            let name = moved.thread.as_ref().map(|(user, id)| exported(threads, &owner.project, user, id));
            let taken = match &name {
                Some(name) => name.is_some(),
                None => selection.takes_owner(owner),
            };
            if !taken {
                continue;
            }
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(NewFile::begin(directory, KV)?),
            };
            file.line(&EntryLine { entry: EntryFacts::of(moved, name.flatten())? })?;
            count += 1;
        }
    }
    let Some(file) = file else {
        directory.remove(KV)?;
        return Ok(None);
    };
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count, bytes, sha256 }))
}

fn open(directory: &Directory, file: &FileEntry) -> Result<Lines<'static>, TransferError> {
    Lines::open(directory, KV, file.facts()).map_err(TransferError::Damaged)
}

/// Reads the next entry. `None` at the end of an intact file.
fn next(lines: &mut Lines<'_>) -> Result<Option<ReadEntry>, TransferError> {
    let read = |lines: &mut Lines<'_>| -> Result<Option<ReadEntry>, Damage> {
        if !lines.advance()? {
            return Ok(None);
        }
        lines.parse::<EntryLine>()?.entry().map(Some).map_err(|error| lines.damage(error))
    };
    read(lines).map_err(TransferError::Damaged)
}

/// Stores the entries of the selected owners and the imported threads, after the complete file has been validated.
pub async fn put(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
    selection: &Selection,
    taken: &Taken,
) -> Result<(), TransferError> {
    let mut lines = open(directory, file)?;
    while next(&mut lines)?.is_some() {}
    let mut lines = open(directory, file)?;
    let (mut batch, mut bytes, mut owner): (Vec<KvWrite>, usize, Option<KvOwner>) = (Vec::new(), 0, None);
    while let Some(entry) = next(&mut lines)? {
        let Some(thread) = thread_of(&entry, selection, taken) else { continue };
        let is_full = batch.len() >= BATCH || bytes >= BATCH_BYTES;
        if let Some(former) = owner.as_ref().filter(|former| is_full || **former != entry.owner) {
            store_batch(store, former, std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
        bytes += entry.put.value.len();
        owner = Some(entry.owner);
        let change = KvChange::Put(KvPut { thread, ..entry.put });
        batch.push(KvWrite { place: entry.place, if_tag: Some(None), change });
    }
    if let Some(owner) = owner {
        store_batch(store, &owner, batch).await?;
    }
    Ok(())
}

/// The key of the thread with which an entry goes, if it has one; `None` if the entry is left out.
fn thread_of(entry: &ReadEntry, selection: &Selection, taken: &Taken) -> Option<Option<ThreadKey>> {
    match &entry.thread {
        Some(name) => taken.get(name).map(|key| Some(*key)),
        None => selection.takes_owner(&entry.owner).then_some(None),
    }
}

/// Stores the entries that are not there, and whose threads are.
async fn store_batch(store: &dyn TransferStore, owner: &KvOwner, mut batch: Vec<KvWrite>) -> Result<(), TransferError> {
    while !batch.is_empty() {
        match store.write_kv(owner, &batch).await? {
            KvWritten::Done { .. } => return Ok(()),
            KvWritten::Changed(index) | KvWritten::ThreadGone(index) => drop(batch.remove(index)),
        }
    }
    Ok(())
}
