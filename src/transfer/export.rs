//! Export: from a store to files. Each thread is written as of one moment: a prefix of its log, and its runs at that
//! moment.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};
use threadline_core::{
    Fence, ReadFrom, Run, RunStatus, Seq, Thread, ThreadId, Timestamp, envelope, hex,
    limits::{MAX_EVENT_PAGE, MAX_PAGE, TRANSFER_THREADS},
};
use threadline_store::{MovedThread, StoreError, TransferStore};

use super::{
    agents::{AgentFacts, AgentLine},
    annotations, checkpoints,
    counts::{Counter, Transferred},
    directory::{AGENTS, Directory, FEEDS, Facts, JOURNAL, NewFile, file_of, json_line},
    error::TransferError,
    format::{FeedLine, RunFacts, RunLine, ThreadFacts, ThreadLine},
    items, kv,
    manifest::{self, FileEntry, Header, Line, ThreadEntry, ThreadName, Threads},
    projects,
    selection::{ExportedSecrets, Selection},
    streams,
};
use crate::progress::Progress;

/// Exports the selected threads, and the data that belongs to them, into a directory. A repeated export skips unchanged
/// files.
pub async fn export(
    store: Arc<dyn TransferStore>,
    directory: &Path,
    selection: &Selection,
    secrets: ExportedSecrets,
    now: Timestamp,
    progress: &Progress,
) -> Result<Transferred, TransferError> {
    let directory = Arc::new(Directory::make(directory)?);
    let known = manifest::known(&directory, selection)?;
    let header = Header::new(selection, now);
    manifest::begin(&directory, &header, &known)?;
    let path = directory.at(JOURNAL);
    let journal = File::options().append(true).open(&path).map_err(|error| TransferError::Io(path.clone(), error))?;
    let mut journal = (journal, path);

    // Changes that a crash has kept from their feeds receive their positions, as at the start of a server.
    for (project, user) in store.dirty_feeds(usize::MAX).await? {
        store.pump_feed(&project, &user).await?;
    }
    let total = match selection.threads.len() {
        0 => store.count_threads().await?,
        some => some as u64,
    };
    let counter = Counter::new(progress, "exported", total);
    let mut moved = Transferred::default();
    let mut threads = Threads::new();
    let mut after = None;
    loop {
        let page = store.all_threads(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.thread.key);
        let wanted = page.into_iter().filter(|moved| selection.takes(&moved.thread.id, &moved.thread.user));
        let written = stream::iter(wanted).map(|moved| {
            let (store, directory) = (store.clone(), directory.clone());
            let former = known.get(&name(&moved.thread)).cloned();
            one(store, directory, moved, former, &counter)
        });
        let mut written = std::pin::pin!(written.buffer_unordered(TRANSFER_THREADS));
        while let Some(done) = written.try_next().await? {
            let (entry, fresh) = match done {
                Done::Written(entry) => (entry, true),
                Done::Unchanged(entry) => (entry, false),
                Done::Gone => continue,
            };
            if fresh {
                let line = json_line(&Line::Thread(entry.clone()));
                journal.0.write_all(&line).map_err(|error| TransferError::Io(journal.1.clone(), error))?;
                moved.threads += 1;
                moved.events += entry.tail;
            } else {
                moved.present += 1;
            }
            threads.insert(entry.name(), entry);
        }
    }
    let found: HashSet<&ThreadId> = threads.keys().map(|(_, id, _)| id).collect();
    if let Some(missing) = selection.threads.iter().find(|id| !found.contains(id)) {
        return Err(TransferError::NoThread(missing.to_string()));
    }
    let mut others = Vec::new();
    if selection.is_all() {
        match secrets {
            ExportedSecrets::Written => others.push(Line::Agents(agents(store.as_ref(), &directory).await?)),
            ExportedSecrets::LeftOut => directory.remove(AGENTS)?,
        }
        others.extend(projects::write(store.as_ref(), &directory, secrets).await?.map(Line::Projects));
    }
    others.extend(annotations::write(store.as_ref(), &directory, &threads).await?.map(Line::Annotations));
    others.extend(items::write(store.as_ref(), &directory, &threads).await?.map(Line::Items));
    others.extend(checkpoints::write(store.as_ref(), &directory, &threads).await?.map(Line::Checkpoints));
    others.extend(kv::write(store.as_ref(), &directory, selection, &threads).await?.map(Line::Kv));
    others.extend(streams::write(store.as_ref(), &directory, selection).await?.map(Line::Streams));
    if selection.threads.is_empty() {
        others.push(Line::Feeds(feeds(store.as_ref(), &directory, selection).await?));
    }
    directory.keep_only(&threads.values().map(|entry| entry.file.as_str()).collect())?;
    manifest::finish(&directory, &header, &threads, others)?;
    progress.clear();
    Ok(moved)
}

fn name(thread: &Thread) -> ThreadName {
    manifest::name_of(&thread.project, &thread.user, &thread.id, thread.claimed)
}

enum Done {
    Written(ThreadEntry),
    Unchanged(ThreadEntry),
    /// The thread was deleted meanwhile.
    Gone,
}

async fn one(
    store: Arc<dyn TransferStore>,
    directory: Arc<Directory>,
    moved: MovedThread,
    former: Option<ThreadEntry>,
    counter: &Counter<'_>,
) -> Result<Done, TransferError> {
    let thread = &moved.thread;
    let same = |former: &ThreadEntry| {
        (former.epoch, former.tail, former.version) == (thread.epoch, thread.tail, thread.version)
    };
    if let Some(former) = former.filter(same) {
        let (path, expected) = (directory.at(&former.file), former.facts());
        let found = tokio::task::spawn_blocking(move || facts(&path)).await?;
        if found.is_ok_and(|found| found == expected) {
            counter.events(former.tail);
            counter.thread();
            return Ok(Done::Unchanged(former));
        }
    }
    let Some(runs) = runs(store.as_ref(), &moved).await? else { return Ok(Done::Gone) };
    let file = file_of(&name(thread));
    let mut out = NewFile::begin(&directory, &file)?;
    out.line(&ThreadLine { thread: ThreadFacts::of(&moved)? })?;
    for run in runs {
        out.line(&RunLine { run: RunFacts::of(run)? })?;
    }
    let mut after: Seq = 0;
    while after < thread.tail {
        let page = store.read(thread.key, ReadFrom::After(after), MAX_EVENT_PAGE).await?;
        let Some(page) = page else { return Ok(Done::Gone) };
        let slice = page.slice.between(after, thread.tail + 1);
        let Some(last) = slice.last_seq() else {
            return Err(StoreError::Corrupt(format!("the log of thread {} ends at {after}", thread.id)).into());
        };
        after = last;
        out.write(&envelope::ndjson(&slice))?;
        counter.events(slice.count());
    }
    let Facts { bytes, sha256 } = tokio::task::spawn_blocking(move || out.finish()).await??;
    counter.thread();
    Ok(Done::Written(ThreadEntry {
        project_id: thread.project.clone(),
        thread_id: thread.id.clone(),
        user_id: thread.user.clone(),
        claimed: thread.claimed,
        epoch: thread.epoch,
        tail: thread.tail,
        version: thread.version,
        file,
        bytes,
        sha256,
    }))
}

/// Reads a thread's runs, newest first, as of the thread's tail: later runs are left out. `None` if the thread was
/// deleted.
async fn runs(store: &dyn TransferStore, moved: &MovedThread) -> Result<Option<Vec<Run>>, TransferError> {
    let (key, tail) = (moved.thread.key, moved.thread.tail);
    let mut runs = Vec::new();
    let mut before = Some(Fence(moved.fence.0.saturating_add(1)));
    loop {
        let page = store.runs(key, before, MAX_PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.fence);
        runs.extend(page.into_iter().map(|run| as_of(run, tail)));
    }
    // Runs are deleted with their thread. If there are events, reading them detects the deletion.
    let gone = tail == 0 && store.heads(&[key]).await?.is_empty();
    Ok((!gone).then_some(runs))
}

/// State of a run after the event `tail`, even if it had no events by then.
fn as_of(run: Run, tail: Seq) -> Run {
    if run.last_seq() <= tail {
        return run;
    }
    run.as_of(tail).unwrap_or(Run {
        status: RunStatus::Running,
        error_code: None,
        error_message: None,
        usage: None,
        producer_seq: 0,
        ended_at: None,
        lease_until: None,
        stop_requested_at: None,
        ..run
    })
}

/// Computes size and digest of an existing file.
fn facts(path: &Path) -> io::Result<Facts> {
    struct Sum(Sha256);
    impl Write for Sum {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sum = Sum(Sha256::new());
    let bytes = io::copy(&mut File::open(path)?, &mut sum)?;
    Ok(Facts { bytes, sha256: hex(&sum.0.finalize()) })
}

fn entry(file: NewFile, count: u64) -> Result<FileEntry, TransferError> {
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(FileEntry { count, bytes, sha256 })
}

async fn agents(store: &dyn TransferStore, directory: &Directory) -> Result<FileEntry, TransferError> {
    let mut file = NewFile::begin(directory, AGENTS)?;
    let agents = store.all_agents().await?;
    let count = agents.len() as u64;
    for (project, id, definition) in agents {
        file.line(&AgentLine { agent: AgentFacts::of(project, id, definition)? })?;
    }
    entry(file, count)
}

async fn feeds(
    store: &dyn TransferStore,
    directory: &Directory,
    selection: &Selection,
) -> Result<FileEntry, TransferError> {
    let mut file = NewFile::begin(directory, FEEDS)?;
    let (mut count, mut after) = (0, None);
    loop {
        let page = store.all_feeds(after.as_ref(), MAX_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        for (project, user) in page.into_iter().filter(|(_, user)| selection.takes_feed(user)) {
            // Changes since the threads were read.
            store.pump_feed(&project, &user).await?;
            let image = store.feed_image(&project, &user).await?;
            let epoch = Some(image.epoch);
            file.line(&FeedLine::Feed { project_id: project, user_id: user, head: image.head, epoch })?;
            for (cursor, thread_id) in image.entries {
                file.line(&FeedLine::Entry { cursor, thread_id })?;
            }
            count += 1;
        }
    }
    entry(file, count)
}
