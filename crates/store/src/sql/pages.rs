//! Pages as they come from the database: of a log, of a list, of a feed.

use std::sync::Arc;

use threadline_core::{
    AgentId, Batch, Epoch, FeedChange, FeedCursor, FeedEntry, FeedHead, Fence, Footprint, ListPosition, LogSlice,
    OpenInterrupt, ProjectId, ReadFrom, Run, RunId, Seq, ThreadId, ThreadKey, Timestamp, UserId, interrupt,
    limits::{PAGE_BYTES, PAGE_ROWS},
};

use super::{
    columns::{Cells, Columns},
    corrupt, crc,
};
use crate::{
    ActiveRuns, Claimed, Due, FeedImage, FeedPage, Head, IdlePage, IdlePlace, LogPage, MovedThread, Named, Renewed,
    StoreError, StoreResult, ThreadPage, damage, segment::LogRow,
};

/// Bounds of one read of a log.
pub(crate) struct Cap {
    pub(crate) bytes: usize,
    pub(crate) rows: usize,
    pub(crate) events: usize,
}

impl Cap {
    /// Bounds of a page for a reader.
    pub(crate) fn page(max_events: usize) -> Self {
        Self { bytes: PAGE_BYTES, rows: PAGE_ROWS, events: max_events }
    }
}

/// The head and log rows in order, from two kinds of rows that the first column distinguishes: 0 is a head; others have
/// `first_seq, last_seq, at, fence, NULL, run` in the place of the head's first columns, and the body in the last column.
/// `None` if the thread is gone. A row whose checksum is wrong ends the rows, seen from the cursor; if it is the first, it is
/// the answer.
pub(crate) fn log_rows<R: Cells>(
    rows: &[R],
    key: ThreadKey,
    from: ReadFrom,
) -> StoreResult<Option<(Head, Vec<LogRow>)>> {
    let mut head = None;
    let mut log: Vec<LogRow> = Vec::with_capacity(rows.len());
    let mut newest_run: Option<(i64, RunId)> = None;
    let mut damaged: Vec<(Seq, Seq)> = Vec::new();
    for row in rows {
        let mut columns = Columns::new(row);
        if columns.int()? == 0 {
            head = columns.head()?.map(|(head, _)| head);
            continue;
        }
        let (first_seq, last_seq, at) = (columns.count()?, columns.count()?, columns.time()?);
        let run = match (columns.maybe_int()?, &newest_run) {
            (None, _) => None,
            (Some(fence), Some((same, run))) if fence == *same => Some(run.clone()),
            (Some(fence), _) => {
                columns.maybe_int()?;
                let run = columns.id(RunId::new)?;
                newest_run = Some((fence, run.clone()));
                Some(run)
            }
        };
        let mut columns = Columns::new(row).skip(17);
        let (body, stored) = (columns.bytes()?, columns.maybe_int()?);
        if stored.is_some_and(|stored| stored != crc(&body)) {
            damaged.push((first_seq, last_seq));
        }
        log.push(LogRow { first_seq, last_seq, at, run, body: body.into() });
    }
    log.sort_unstable_by_key(|row| row.first_seq);
    let nearest = match from {
        ReadFrom::After(_) => damaged.iter().min(),
        ReadFrom::Before(_) => damaged.iter().max(),
    };
    if let Some((first_seq, last_seq)) = nearest.copied() {
        damage::count(damaged.len());
        match from {
            ReadFrom::After(_) => log.retain(|row| row.last_seq < first_seq),
            ReadFrom::Before(_) => log.retain(|row| row.first_seq > last_seq),
        }
        if log.is_empty() {
            return Err(StoreError::Damaged { key, first_seq, last_seq });
        }
    }
    Ok(head.map(|head| (head, log)))
}

/// The threads of one id, for a caller that names no user.
pub(crate) fn named<R: Cells>(rows: &[R]) -> StoreResult<Named> {
    Ok(Named::among(each(rows, Columns::thread)?.into_iter().flatten().collect()))
}

/// True between two batches between which events are missing.
fn is_gap(pair: &[Arc<Batch>]) -> bool {
    pair[0].last_seq + 1 != pair[1].first_seq
}

/// The page that a reader receives, cut from the rows that contain it. Seen from the cursor, it ends where rows are
/// missing.
pub(crate) fn log_page(head: Head, rows: Vec<LogRow>, from: ReadFrom, max_events: usize) -> StoreResult<LogPage> {
    let mut slice = LogSlice::default();
    for row in rows {
        slice.0.extend(row.unpack()?);
    }
    if slice.0.windows(2).any(|pair| pair[0].last_seq >= pair[1].first_seq) {
        return Err(corrupt(format_args!("the log of thread {} has an event twice", head.key.0)));
    }
    let max_events = max_events as u64;
    let slice = match from {
        ReadFrom::After(after) => {
            let mut slice = slice.between(after, after.saturating_add(max_events).saturating_add(1));
            if let Some(gap) = slice.0.windows(2).position(is_gap) {
                slice.0.truncate(gap + 1);
            }
            slice
        }
        ReadFrom::Before(before) => {
            let mut slice = slice.between(0, before);
            if let Some(gap) = slice.0.windows(2).rposition(is_gap) {
                slice.0.drain(..=gap);
            }
            let end: Seq = slice.last_seq().unwrap_or(0);
            slice.between(end.saturating_sub(max_events), Seq::MAX)
        }
    };
    Ok(LogPage { head, slice })
}

/// A page of a list, from one row more than `limit` if there are more: sort time, then the thread.
pub(crate) fn thread_page<R: Cells>(rows: &[R], limit: usize, feed_cursor: FeedCursor) -> StoreResult<ThreadPage> {
    let mut threads = Vec::with_capacity(rows.len());
    let mut next = None;
    for row in rows.iter().take(limit) {
        let mut columns = Columns::new(row);
        let at = Timestamp(columns.int()?);
        let thread = columns.thread()?.ok_or_else(|| corrupt("a listed thread without columns"))?;
        next = Some(ListPosition { at, id: thread.id.clone() });
        threads.push(thread);
    }
    Ok(ThreadPage { threads, next: next.filter(|_| rows.len() > limit), feed_cursor })
}

/// A page of a feed. Every row begins with the feed's head; if there is no entry, one row has the head alone.
pub(crate) fn feed_page<R: Cells>(rows: &[R]) -> StoreResult<FeedPage> {
    let mut page = FeedPage { entries: Vec::new(), head: FeedHead::EMPTY };
    for row in rows {
        let mut columns = Columns::new(row);
        page.head = columns.feed_head()?;
        let Some(cursor) = columns.maybe_int()? else { continue };
        let thread_id = columns.id(ThreadId::new)?;
        let change = match columns.thread()? {
            Some(thread) => FeedChange::Upsert(Box::new(thread)),
            None => FeedChange::Delete,
        };
        page.entries.push(FeedEntry { cursor: cursor.unsigned_abs(), thread_id, change });
    }
    Ok(page)
}

/// Decodes one item from each row.
pub(crate) fn each<'r, R: Cells, T>(
    rows: &'r [R],
    item: impl Fn(&mut Columns<'r, R>) -> StoreResult<T>,
) -> StoreResult<Vec<T>> {
    rows.iter().map(|row| item(&mut Columns::new(row))).collect()
}

/// Users that have a feed: project and user.
pub(crate) fn feeds<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ProjectId, UserId)>> {
    each(rows, |columns| Ok((columns.id(ProjectId::new)?, columns.id(UserId::new)?)))
}

/// A complete feed. Every row begins with the feed's head and epoch; if there is no entry, one row has these alone. Then
/// position and thread.
pub(crate) fn feed_image<R: Cells>(rows: &[R]) -> StoreResult<FeedImage> {
    let mut image = FeedImage::default();
    for row in rows {
        let mut columns = Columns::new(row);
        (image.head, image.epoch) = (columns.count()?, Epoch::from_i64(columns.int()?));
        if let Some(pos) = columns.maybe_int()? {
            image.entries.push((pos.unsigned_abs(), columns.id(ThreadId::new)?));
        }
    }
    Ok(image)
}

/// Threads for an export: the fence, then the thread.
pub(crate) fn moved_threads<R: Cells>(rows: &[R]) -> StoreResult<Vec<MovedThread>> {
    each(rows, |columns| {
        let fence = Fence(columns.int()?);
        let thread = columns.thread()?.ok_or_else(|| corrupt("a listed thread without columns"))?;
        Ok(MovedThread { thread, fence, interrupts: None, request: None })
    })
}

/// Idle threads. Every row begins with a place, then the thread; an outer join finds none for a thread that is not idle.
pub(crate) fn idle_page<R: Cells>(rows: &[R], window: usize) -> StoreResult<IdlePage> {
    let mut page = IdlePage::default();
    for row in rows {
        let mut columns = Columns::new(row);
        page.next = Some(IdlePlace { at: columns.time()?, key: ThreadKey(columns.int()?) });
        page.threads.extend(columns.thread()?);
    }
    page.next = page.next.filter(|_| rows.len() >= window);
    Ok(page)
}

/// Adds the threads, runs, events, snapshots and annotations of a user to `print`; returns the number of threads.
pub(crate) fn count_threads<R: Cells>(print: &mut Footprint, columns: &mut Columns<'_, R>) -> StoreResult<u64> {
    let threads = columns.count()?;
    print.threads += threads;
    print.runs += columns.count()?;
    print.events += columns.count()?;
    print.snapshots += columns.count()?;
    print.annotations += columns.count()?;
    Ok(threads)
}

/// Agents: id and definition.
pub(crate) fn agents<R: Cells>(rows: &[R]) -> StoreResult<Vec<(AgentId, String)>> {
    each(rows, |columns| Ok((columns.id(AgentId::new)?, columns.text()?)))
}

/// Agents of all projects: project, id and definition.
pub(crate) fn all_agents<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ProjectId, AgentId, String)>> {
    each(rows, |columns| Ok((columns.id(ProjectId::new)?, columns.id(AgentId::new)?, columns.text()?)))
}

/// Turns that were looked at: key, project, user and id of the thread if its run is due, else NULL.
pub(crate) fn claimed<R: Cells>(rows: &[R], limit: usize) -> StoreResult<Claimed> {
    let mut due = Vec::new();
    for row in rows {
        let mut columns = Columns::new(row);
        let Some(key) = columns.maybe_int()? else { continue };
        due.push(Due {
            key: ThreadKey(key),
            project: columns.id(ProjectId::new)?,
            user: columns.id(UserId::new)?,
            thread: columns.id(ThreadId::new)?,
        });
    }
    Ok(Claimed { due, more: rows.len() >= limit })
}

/// Step of a renewal of leases: their number, that of the runs that were looked at, and the last key.
pub(crate) fn renewed<R: Cells>(rows: &[R], limit: usize) -> StoreResult<Renewed> {
    let Some(row) = rows.first() else { return Ok(Renewed::default()) };
    let mut columns = Columns::new(row);
    let (leases, seen, last) = (columns.count()?, columns.count()?, columns.maybe_int()?);
    Ok(Renewed { leases, next: last.filter(|_| seen >= limit as u64).map(ThreadKey) })
}

/// Numbers of active runs: of the project, of the user.
pub(crate) fn active_runs<R: Cells>(rows: &[R]) -> StoreResult<ActiveRuns> {
    let counts = each(rows, |columns| {
        let mut count = || columns.int().map(|count| u64::try_from(count).unwrap_or(0));
        Ok(ActiveRuns { project: count()?, user: count()? })
    })?;
    Ok(counts.into_iter().next().unwrap_or_default())
}

/// Runs of a thread: its head, then the run.
pub(crate) fn runs<R: Cells>(rows: &[R]) -> StoreResult<Vec<Run>> {
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        if let Some((head, _)) = columns.head()? {
            runs.extend(columns.run(&head)?);
        }
    }
    Ok(runs)
}

/// Open interrupts of threads, from rows of a key and the stored text.
pub(crate) fn open_interrupts<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ThreadKey, Vec<OpenInterrupt>)>> {
    let mut open = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        let (key, text) = (ThreadKey(columns.int()?), columns.text()?);
        let interrupts = interrupt::stored(&text);
        open.push((key, interrupts.ok_or_else(|| corrupt(format_args!("open interrupts of thread {}", key.0)))?));
    }
    Ok(open)
}
