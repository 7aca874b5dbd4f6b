//! Export and import of item lists. A list that exists already stays unchanged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    ProjectId, ThreadId, ThreadKey, UserId,
    items::{Item, ItemRange, ListName, ListState},
    kv::Tag,
    limits::{MAX_ITEM_PAGE, MAX_PAGE},
};
use threadline_store::TransferStore;

use super::{
    annotations::{Taken, exported},
    directory::{Directory, Facts, ITEMS, NewFile},
    error::{Damage, TransferError},
    format::raw,
    manifest::{FileEntry, ThreadName, Threads},
    reading::Lines,
};

/// Bytes of items that are read, or stored, at once.
const PART_BYTES: usize = 1_024 * 1_024;

/// Line of the file: a list, and then its items.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ItemsLine {
    /// List without its items.
    List(ListFacts),
    /// Item of the list before.
    Item(ItemFacts),
}

/// List of a thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListFacts {
    project_id: ProjectId,
    thread_id: ThreadId,
    /// User who owns the thread, if it has not claimed its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    list: String,
    tag: String,
    count: u64,
    next_pos: u64,
}

/// Item of a list, at its position.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemFacts {
    pos: u64,
    item: Box<RawValue>,
}

/// A list that is read, with the number of its items that were read.
struct Reading {
    thread: ThreadName,
    list: ListName,
    state: ListState,
    seen: u64,
    newest: u64,
}

/// Exported threads that have agent data, with their keys.
pub async fn listed(
    store: &dyn TransferStore,
    threads: &Threads,
) -> Result<BTreeMap<ThreadName, ThreadKey>, TransferError> {
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.listed_data(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key);
        found.extend(exported(page, threads));
    }
}

/// Writes the lists of the exported threads. Returns `None`, and leaves no file, if there are none.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    threads: &Threads,
) -> Result<Option<FileEntry>, TransferError> {
    let found = listed(store, threads).await?;
    let (mut file, mut count) = (None, 0);
    for (name, key) in found {
        for (list, _) in store.lists(key).await? {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(NewFile::begin(directory, ITEMS)?),
            };
            count += u64::from(write_list(store, file, &name, key, &list).await?);
        }
    }
    let Some(file) = file else {
        directory.remove(ITEMS)?;
        return Ok(None);
    };
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count, bytes, sha256 }))
}

/// Writes a list as of one moment; false if it is gone. What was written of a list that is changed meanwhile is taken back.
async fn write_list(
    store: &dyn TransferStore,
    file: &mut NewFile,
    name: &ThreadName,
    key: ThreadKey,
    list: &ListName,
) -> Result<bool, TransferError> {
    let begin = file.mark();
    loop {
        match write_pages(store, file, name, key, list).await? {
            Pages::Whole => return Ok(true),
            Pages::Changed => file.rewind(&begin)?,
            Pages::Gone => {
                file.rewind(&begin)?;
                return Ok(false);
            }
        }
    }
}

/// Pages of a list, as they were read one after the other.
enum Pages {
    Whole,
    Changed,
    Gone,
}

async fn write_pages(
    store: &dyn TransferStore,
    file: &mut NewFile,
    name: &ThreadName,
    key: ThreadKey,
    list: &ListName,
) -> Result<Pages, TransferError> {
    let (mut after, mut first): (u64, Option<Tag>) = (0, None);
    loop {
        let page = store.items(key, list, ItemRange::After(after), MAX_ITEM_PAGE, PART_BYTES).await?;
        let Some((Some(state), page)) = page else { return Ok(Pages::Gone) };
        match &first {
            Some(tag) if *tag != state.tag => return Ok(Pages::Changed),
            Some(_) => {}
            None => {
                let (project_id, thread_id, user_id) = name.clone();
                let (list, tag) = (list.as_str().to_owned(), state.tag.as_str().to_owned());
                let (count, next_pos) = (state.count, state.next_pos);
                file.line(&ItemsLine::List(ListFacts { project_id, thread_id, user_id, list, tag, count, next_pos }))?;
                first = Some(state.tag);
            }
        }
        let Some(last) = page.last() else { return Ok(Pages::Whole) };
        after = last.pos;
        for item in page {
            file.line(&ItemsLine::Item(ItemFacts { pos: item.pos, item: raw(item.body)? }))?;
        }
    }
}

impl ListFacts {
    /// The list with its thread; `None` if its facts contradict each other.
    fn begin(self) -> Option<Reading> {
        let list = ListName::new(self.list).ok()?;
        let state = ListState { tag: Tag::new(self.tag).ok()?, count: self.count, next_pos: self.next_pos };
        let sound = state.next_pos > 0 && state.count < state.next_pos;
        let thread = (self.project_id, self.thread_id, self.user_id);
        sound.then_some(Reading { thread, list, state, seen: 0, newest: 0 })
    }
}

impl Reading {
    /// Takes the next item; false if its position does not fit.
    fn take(&mut self, pos: u64) -> bool {
        let fits = pos > self.newest && pos < self.state.next_pos && self.seen < self.state.count;
        (self.seen, self.newest) = (self.seen + 1, pos);
        fits
    }

    fn is_whole(&self) -> bool {
        self.seen == self.state.count
    }
}

/// Reads the next line of a sound file. `None` at its end.
fn next(lines: &mut Lines<'_>, list: &mut Option<Reading>) -> Result<Option<Option<Item>>, Damage> {
    let whole = |list: &Option<Reading>| list.as_ref().is_none_or(Reading::is_whole);
    if !lines.advance()? {
        return if whole(list) { Ok(None) } else { Err(lines.damage("items are missing")) };
    }
    match lines.parse::<ItemsLine>()? {
        ItemsLine::List(facts) if whole(list) => {
            *list = Some(facts.begin().ok_or_else(|| lines.damage("not a list"))?);
            Ok(Some(None))
        }
        ItemsLine::Item(facts) if list.as_mut().is_some_and(|list| list.take(facts.pos)) => {
            Ok(Some(Some(Item { pos: facts.pos, body: facts.item.get().to_owned() })))
        }
        ItemsLine::List(_) => Err(lines.damage("items are missing")),
        ItemsLine::Item(_) => Err(lines.damage("an item without its list, or not in order")),
    }
}

/// Stores the lists of these threads, after the complete file has been validated.
pub async fn put(
    directory: &Directory,
    file: &FileEntry,
    store: &dyn TransferStore,
    taken: &Taken,
) -> Result<(), TransferError> {
    let open = || Lines::open(directory, ITEMS, file.facts()).map_err(TransferError::Damaged);
    let (mut lines, mut list) = (open()?, None);
    while next(&mut lines, &mut list).map_err(TransferError::Damaged)?.is_some() {}
    let (mut lines, mut list) = (open()?, None);
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(item) = next(&mut lines, &mut list).map_err(TransferError::Damaged)? {
        if let Some(item) = item {
            bytes += item.body.len();
            part.push(item);
        }
        let Some(reading) = &list else { continue };
        if reading.is_whole() || bytes >= PART_BYTES {
            if let Some(key) = taken.get(&reading.thread) {
                store.put_list(*key, &reading.list, &reading.state, &part).await?;
            }
            (part, bytes) = (Vec::new(), 0);
        }
    }
    Ok(())
}
