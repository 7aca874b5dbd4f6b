//! Import: from files to a store. A thread is staged while its file is read, and published once the complete file has
//! been validated.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use futures_util::{StreamExt, TryStreamExt, stream};
use threadline_core::{
    Batch, Epoch, Family, ProjectId, ThreadKey, UserId,
    limits::{ROW_BYTES, SEAL_BYTES, TRANSFER_THREADS},
};
use threadline_store::{
    Arrival, FeedImage, MovedThread, Published, StagedPart, Staging, StoreResult, TransferStore, staging::Packer,
};
use tokio::sync::mpsc;

use super::{
    agents::AgentLine,
    annotations, checkpoints,
    compare::Comparison,
    counts::{Counter, Transferred},
    directory::{AGENTS, Directory, FEEDS},
    error::{Damage, Refusal, TransferError},
    format::FeedLine,
    items, kv,
    manifest::{self, FileEntry, Manifest, ThreadEntry},
    projects,
    reading::{Lines, ThreadFile},
    selection::Selection,
    streams,
};
use crate::progress::Progress;

/// Pieces of a file that are read ahead of the store.
const AHEAD: usize = 1;

/// Imports the threads of a finished export, and the data that belongs to them, into a store. Existing equal data is
/// skipped; invalid or conflicting data is refused and reported, and the rest is imported.
pub async fn import(
    store: Arc<dyn TransferStore>,
    directory: &Path,
    selection: &Selection,
    progress: &Progress,
    mut refused: impl FnMut(&Refusal),
) -> Result<Transferred, TransferError> {
    let directory = Arc::new(Directory::open(directory)?);
    let Manifest { threads, agents, projects, annotations, items, checkpoints: states, kv, streams: plain, feeds } =
        manifest::read(&directory)?;
    if let Some(missing) = selection.threads.iter().find(|id| !threads.iter().any(|entry| entry.thread_id == **id)) {
        return Err(TransferError::NoThread(format!("{missing} in this export")));
    }
    let mut moved = Transferred::default();
    let mut refuse = |moved: &mut Transferred, refusal: Refusal| {
        moved.refused += 1;
        progress.clear();
        refused(&refusal);
    };
    if let Some(file) = agents.filter(|_| selection.is_all()) {
        for refusal in put_agents(store.as_ref(), &directory, &file).await? {
            refuse(&mut moved, refusal);
        }
    }
    if let Some(file) = projects.filter(|_| selection.is_all()) {
        for refusal in projects::put(store.as_ref(), &directory, &file).await? {
            refuse(&mut moved, refusal);
        }
    }
    let wanted: Vec<_> =
        threads.into_iter().filter(|entry| selection.takes(&entry.thread_id, &entry.user_id)).collect();
    let counter = Counter::new(progress, "imported", wanted.len() as u64);
    let outcomes = stream::iter(wanted).map(|entry| one(store.clone(), directory.clone(), entry, &counter));
    let mut outcomes = std::pin::pin!(outcomes.buffer_unordered(TRANSFER_THREADS));
    let mut taken = annotations::Taken::new();
    let mut families = BTreeSet::new();
    while let Some((entry, outcome)) = outcomes.try_next().await? {
        if let Outcome::Done(key, _) | Outcome::Present(key) = outcome {
            taken.insert(entry.name(), key);
        }
        match outcome {
            Outcome::Done(_, family) => {
                families.extend(family.map(|family| (entry.project_id.clone(), entry.user_id.clone(), family)));
                moved.threads += 1;
                moved.events += entry.tail;
            }
            Outcome::Present(_) => moved.present += 1,
            Outcome::Refused(why) => {
                let what = format!("thread {} of project {}", entry.thread_id, entry.project_id);
                refuse(&mut moved, Refusal { what, why });
            }
        }
    }
    for (project, user, family) in families {
        // The store may have listed another branch since the export, or the export may lack the listed one.
        store.list_branch(&project, &user, family, None).await?;
    }
    if let Some(file) = annotations {
        annotations::put(store.as_ref(), &directory, &file, &taken).await?;
    }
    if let Some(file) = items {
        items::put(&directory, &file, store.as_ref(), &taken).await?;
    }
    if let Some(file) = states {
        for refusal in checkpoints::put(&directory, &file, store.as_ref(), &taken).await? {
            refuse(&mut moved, refusal);
        }
    }
    if let Some(file) = kv {
        kv::put(store.as_ref(), &directory, &file, selection, &taken).await?;
    }
    if let Some(file) = plain {
        for refusal in streams::put(store.as_ref(), &directory, &file, selection).await? {
            refuse(&mut moved, refusal);
        }
    }
    if let Some(file) = feeds {
        put_feeds(store.as_ref(), &directory, &file, selection).await?;
    }
    progress.clear();
    Ok(moved)
}

/// Result for one thread.
enum Outcome {
    /// With the family of a thread that has branches.
    Done(ThreadKey, Option<Family>),
    /// The store already has the thread, unchanged.
    Present(ThreadKey),
    Refused(String),
}

/// Piece of a thread's file.
enum Piece {
    Thread(Box<MovedThread>),
    Part(StagedPart),
    Batches(Vec<Arc<Batch>>),
}

async fn one(
    store: Arc<dyn TransferStore>,
    directory: Arc<Directory>,
    entry: ThreadEntry,
    counter: &Counter<'_>,
) -> Result<(ThreadEntry, Outcome), TransferError> {
    let there = match store.thread_of(&entry.project_id, &entry.user_id, &entry.thread_id).await? {
        None if entry.claimed => store.thread_named(&entry.project_id, &entry.thread_id).await?.claimed(),
        there => there,
    };
    if there.as_ref().is_some_and(|there| there.epoch != entry.epoch) {
        let why = "another thread with this ID exists, with other events: delete one of the two, or omit this one";
        return Ok((entry, Outcome::Refused(why.to_owned())));
    }
    let (pieces, mut read) = mpsc::channel(AHEAD);
    let (file, compare) = (entry.clone(), there.is_some());
    let reader = tokio::task::spawn_blocking(move || read_thread(&directory, &file, compare, &pieces));
    let outcome = match there {
        Some(there) => compared(store.as_ref(), there.key, &mut read, counter).await?,
        None => staged(store.as_ref(), &mut read, counter).await?,
    };
    // A dropped receiver stops the reader.
    drop(read);
    let sound = reader.await?;
    let outcome = match (outcome, sound) {
        (Step::Refused(why), _) => Outcome::Refused(why),
        (Step::Same(key), Ok(_)) => Outcome::Present(key),
        (Step::Staged(key, mut moved), Ok(interrupts)) => {
            moved.interrupts = interrupts;
            match store.publish(key, &moved, Arrival::Import).await? {
                Published::Done => Outcome::Done(key, moved.thread.branch.family),
                Published::Taken | Published::Gone => {
                    store.unstage(key).await?;
                    let why = "it was created or imported concurrently: run the command again";
                    Outcome::Refused(why.to_owned())
                }
            }
        }
        (step, Err(damage)) => {
            if let Step::Staged(key, _) = step {
                store.unstage(key).await?;
            }
            Outcome::Refused(damage.to_string())
        }
        // An intact file begins with its thread.
        (Step::Nothing, Ok(_)) => Outcome::Refused("its file contains no thread".to_owned()),
    };
    counter.thread();
    Ok((entry, outcome))
}

/// Progress of a thread after its file is read.
enum Step {
    Nothing,
    Staged(ThreadKey, Box<MovedThread>),
    Same(ThreadKey),
    Refused(String),
}

async fn compared(
    store: &dyn TransferStore,
    key: ThreadKey,
    read: &mut mpsc::Receiver<Piece>,
    counter: &Counter<'_>,
) -> Result<Step, TransferError> {
    let mut comparison = Comparison::new(store, key);
    while let Some(piece) = read.recv().await {
        let Piece::Batches(batches) = piece else { continue };
        if let Some(seq) = comparison.next(&batches).await? {
            let why = format!(
                "it exists already, and its event with seq {seq} is missing or differs: delete it there, or omit it \
                 from the import"
            );
            return Ok(Step::Refused(why));
        }
        counter.events(batches.iter().map(|batch| batch.count()).sum());
    }
    Ok(Step::Same(key))
}

async fn staged(
    store: &dyn TransferStore,
    read: &mut mpsc::Receiver<Piece>,
    counter: &Counter<'_>,
) -> Result<Step, TransferError> {
    let Some(Piece::Thread(moved)) = read.recv().await else { return Ok(Step::Nothing) };
    let mut staged = None;
    while let Some(piece) = read.recv().await {
        let Piece::Part(part) = piece else { continue };
        let events = part.rows.iter().map(|row| row.row.last_seq + 1 - row.row.first_seq).sum();
        let key = match staged {
            None => match store.stage(&moved, part).await? {
                Staging::Staged(key) => key,
                Staging::Taken(_) => {
                    return Ok(Step::Refused("it was created concurrently: run the command again".to_owned()));
                }
            },
            Some(key) if store.stage_more(key, part).await? => key,
            Some(_) => {
                return Ok(Step::Refused("another import replaced it: run the command again".to_owned()));
            }
        };
        staged = Some(key);
        counter.events(events);
    }
    Ok(staged.map_or(Step::Nothing, |key| Step::Staged(key, moved)))
}

/// Reads a thread's file to its end, or until the receiver is dropped. Answers with the interrupts that are open after
/// the last event that was read.
fn read_thread(
    directory: &Directory,
    entry: &ThreadEntry,
    compare: bool,
    pieces: &mpsc::Sender<Piece>,
) -> Result<Option<String>, Damage> {
    let mut file = ThreadFile::open(directory, entry)?;
    if compare {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = file.next_batch()? {
            bytes += batch.body.len();
            batches.push(batch);
            if bytes >= ROW_BYTES {
                bytes = 0;
                if pieces.blocking_send(Piece::Batches(std::mem::take(&mut batches))).is_err() {
                    return Ok(None);
                }
            }
        }
        // If the receiver was dropped, the result is known already.
        let _ = pieces.blocking_send(Piece::Batches(batches));
        return Ok(None);
    }
    let packed = |rows: StoreResult<_>| rows.map_err(|error| Damage::whole(&entry.file, error));
    let mut packer = Packer::new(&file.runs);
    let mut part = StagedPart { runs: file.take_runs(), rows: Vec::new() };
    if pieces.blocking_send(Piece::Thread(Box::new(file.moved.clone()))).is_err() {
        return Ok(None);
    }
    let mut raw = 0;
    while let Some(batch) = file.next_batch()? {
        let rows = packed(packer.push(batch))?;
        raw += rows.iter().map(|row| row.raw).sum::<usize>();
        part.rows.extend(rows);
        if raw >= SEAL_BYTES {
            raw = 0;
            if pieces.blocking_send(Piece::Part(std::mem::take(&mut part))).is_err() {
                return Ok(None);
            }
        }
    }
    part.rows.extend(packed(packer.finish())?);
    let _ = pieces.blocking_send(Piece::Part(part));
    Ok(file.into_interrupts())
}

async fn put_agents(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
) -> Result<Vec<Refusal>, TransferError> {
    let read = || {
        let mut lines = Lines::open(directory, AGENTS, file.facts())?;
        let mut agents = Vec::new();
        while lines.advance()? {
            agents.push(lines.parse::<AgentLine>()?.agent);
        }
        Ok(agents)
    };
    // The complete file is validated before any of it is used.
    let agents = read().map_err(TransferError::Damaged)?;
    let there = store.all_agents().await?;
    let mut refused = Vec::new();
    for agent in agents {
        let own = there.iter().find(|own| (&own.0, &own.1) == (&agent.project_id, &agent.agent_id));
        match own {
            None => store.put_agent(&agent.project_id, &agent.agent_id, agent.definition.get(), None).await?,
            Some((_, _, definition)) if definition == agent.definition.get() => {}
            Some(_) => refused.push(Refusal {
                what: format!("agent {} of project {}", agent.agent_id, agent.project_id),
                why: "another agent has this name, and was not changed".to_owned(),
            }),
        }
    }
    Ok(refused)
}

async fn put_feeds(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
    selection: &Selection,
) -> Result<(), TransferError> {
    // The complete file is validated before any of it is used; then one feed at a time, since all of them may be large.
    let mut feeds = Feeds::open(directory, file)?;
    while feeds.next()?.is_some() {}
    let mut feeds = Feeds::open(directory, file)?;
    while let Some((project, user, image)) = feeds.next()? {
        if selection.takes_feed(&user) {
            store.put_feed(&project, &user, &image).await?;
        }
    }
    Ok(())
}

/// Reader of the file of feeds, one feed at a time.
struct Feeds {
    lines: Lines<'static>,
    begun: Option<(ProjectId, UserId, FeedImage)>,
}

impl Feeds {
    fn open(directory: &Directory, file: &FileEntry) -> Result<Self, TransferError> {
        let lines = Lines::open(directory, FEEDS, file.facts()).map_err(TransferError::Damaged)?;
        Ok(Self { lines, begun: None })
    }

    fn next(&mut self) -> Result<Option<(ProjectId, UserId, FeedImage)>, TransferError> {
        while self.lines.advance().map_err(TransferError::Damaged)? {
            match (self.lines.parse().map_err(TransferError::Damaged)?, &mut self.begun) {
                (FeedLine::Feed { project_id, user_id, head, epoch }, begun) => {
                    let image = FeedImage { head, epoch: epoch.unwrap_or(Epoch::NONE), entries: Vec::new() };
                    let feed = begun.replace((project_id, user_id, image));
                    if feed.is_some() {
                        return Ok(feed);
                    }
                }
                (FeedLine::Entry { cursor, thread_id }, Some((_, _, image)))
                    if cursor <= image.head && cursor > image.entries.last().map_or(0, |last| last.0) =>
                {
                    image.entries.push((cursor, thread_id));
                }
                (FeedLine::Entry { .. }, _) => {
                    let what = "positions must increase up to the head of the feed";
                    return Err(TransferError::Damaged(self.lines.damage(what)));
                }
            }
        }
        Ok(self.begun.take())
    }
}
