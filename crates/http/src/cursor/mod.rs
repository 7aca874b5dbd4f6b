//! Positions on the wire: ids of events on streams, cursors of logs, feeds and lists.

mod text;

use axum::http::HeaderMap;
use threadline_core::{
    Epoch, FeedCursor, Generation, ListOrder, ListPosition, ReadFrom, Seq, ThreadId, Timestamp, TrashPosition, UserId,
    checkpoints::{CheckpointId, CheckpointNs, CheckpointPosition},
    kv::{KvKey, KvNamespace, KvPlace},
    limits::KV_SCANNED,
};
use threadline_engine::ListCursor;

pub use text::{Cursor, CursorError, CursorKind};

use crate::problem::{Problem, ProblemType};

/// Header that a browser sends when it reconnects: the `id` of the last event it has seen.
const LAST_EVENT_ID: &str = "last-event-id";

/// A position that belongs to one log or feed: the `id` of an event on every stream, `<epoch>:<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Epoch of the log or feed.
    pub epoch: Epoch,
    /// Position in that log or feed.
    pub seq: u64,
}

impl EventId {
    /// Parses `Last-Event-ID`, which must have this form.
    pub fn last_seen(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
        let text = String::from_utf8_lossy(id.as_bytes());
        let id = text.trim().split_once(':').and_then(|(epoch, seq)| {
            let is_seq = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
            Some(Self { epoch: Epoch::parse(epoch)?, seq: seq.parse().ok().filter(|_| is_seq)? })
        });
        id.map(Some).ok_or_else(|| {
            let detail = format!("Last-Event-ID is {text:?}: the id of an event is <epoch>:<seq>");
            Problem::new(ProblemType::InvalidCursor, detail)
        })
    }
}

/// Parameters that say where a read begins: a cursor, or a position with the epoch that it belongs to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'a> {
    pub after: Option<u64>,
    pub before: Option<u64>,
    pub epoch: Option<&'a str>,
    pub cursor: Option<&'a str>,
}

impl Start<'_> {
    /// Position in the log of a thread, with the epoch that it belongs to. A read from the beginning needs none.
    pub fn in_log(self) -> Result<(ReadFrom, Option<Epoch>), Problem> {
        if let Some(text) = self.cursor_alone()? {
            let cursor = read(text, &[CursorKind::Events, CursorKind::EventsBefore])?;
            let from = match cursor.kind {
                CursorKind::EventsBefore => ReadFrom::Before(cursor.position),
                _ => ReadFrom::After(cursor.position),
            };
            return Ok((from, Some(cursor.epoch)));
        }
        let epoch = self.epoch.map(Epoch::named);
        let (name, position, from) = match (self.after, self.before) {
            (Some(_), Some(_)) => return Err(Problem::invalid("after and before exclude each other")),
            (None, Some(before)) => ("before", before, ReadFrom::Before(before)),
            (after, None) => ("after", after.unwrap_or(0), ReadFrom::After(after.unwrap_or(0))),
        };
        match (from, epoch) {
            (ReadFrom::After(0), _) | (_, Some(_)) => Ok((from, epoch)),
            (_, None) => Err(without_epoch(name, position)),
        }
    }

    /// Position in the log of a thread after which events are delivered.
    pub fn followed_in_log(self) -> Result<(Seq, Option<Epoch>), Problem> {
        match self.in_log()? {
            (ReadFrom::After(seq), epoch) => Ok((seq, epoch)),
            (ReadFrom::Before(_), _) => Err(Problem::invalid("before is available for JSON pages only")),
        }
    }

    /// Position in a user's feed.
    pub fn in_feed(self) -> Result<FeedCursor, Problem> {
        if let Some(text) = self.cursor_alone()? {
            let Cursor { epoch, position, .. } = read(text, &[CursorKind::Feed])?;
            return Ok(FeedCursor { epoch, position });
        }
        match (self.after.unwrap_or(0), self.epoch) {
            (0, None) => Ok(FeedCursor::START),
            (position, Some(epoch)) => Ok(FeedCursor { epoch: Epoch::named(epoch), position }),
            (position, None) => Err(without_epoch("after", position)),
        }
    }

    /// The cursor, which comes without any other position.
    fn cursor_alone(&self) -> Result<Option<&str>, Problem> {
        let others =
            [("after", self.after.is_some()), ("before", self.before.is_some()), ("epoch", self.epoch.is_some())];
        match (self.cursor, others.iter().find(|(_, given)| *given)) {
            (Some(_), Some((other, _))) => Err(Problem::invalid(format!("cursor and {other} exclude each other"))),
            (cursor, _) => Ok(cursor),
        }
    }
}

fn without_epoch(name: &str, position: u64) -> Problem {
    let detail =
        format!("{name} is {position}, without epoch: another log has given the same position to another entry");
    Problem::new(ProblemType::InvalidCursor, detail)
}

fn read(text: &str, kinds: &[CursorKind]) -> Result<Cursor, Problem> {
    Cursor::parse(text, kinds).map_err(|error| refused(text, error))
}

fn refused(text: &str, error: CursorError) -> Problem {
    Problem::new(ProblemType::InvalidCursor, format!("cursor {text:?} {error}"))
}

/// Cursor of a thread's log after this seq.
pub fn after_in_log(epoch: Epoch, seq: Seq) -> String {
    Cursor::new(CursorKind::Events, epoch, seq).to_string()
}

/// Cursor of a thread's log before this seq.
pub fn before_in_log(epoch: Epoch, seq: Seq) -> String {
    Cursor::new(CursorKind::EventsBefore, epoch, seq).to_string()
}

/// Cursor of a feed after this position.
pub fn after_in_feed(FeedCursor { epoch, position }: FeedCursor) -> String {
    Cursor::new(CursorKind::Feed, epoch, position).to_string()
}

fn list_of(order: ListOrder) -> CursorKind {
    match order {
        ListOrder::Recent => CursorKind::Threads,
        ListOrder::Created => CursorKind::ThreadsCreated,
    }
}

/// Cursor of the next page of a list of threads.
pub fn write_position(position: &ListPosition, order: ListOrder) -> String {
    write_thread(list_of(order), position)
}

/// Position in a list of threads of this order.
pub fn read_position(text: &str, order: ListOrder) -> Result<ListPosition, Problem> {
    read_thread(text, list_of(order))
}

/// Cursor of the next page of the trash.
pub fn write_trashed(TrashPosition { at, id, user }: &TrashPosition) -> String {
    // Ids hold no control characters.
    let extra = format!("{id}\n{user}");
    Cursor { extra, ..Cursor::new(CursorKind::Trash, Epoch::NONE, at.0.cast_unsigned()) }.to_string()
}

/// Position in the trash.
pub fn read_trashed(text: &str) -> Result<TrashPosition, Problem> {
    let Cursor { position, extra, .. } = read(text, &[CursorKind::Trash])?;
    let ids = extra.split_once('\n').and_then(|(id, user)| Some((ThreadId::new(id).ok()?, UserId::new(user).ok()?)));
    let (id, user) = ids.ok_or_else(|| refused(text, CursorError::Damaged))?;
    Ok(TrashPosition { at: Timestamp(position.cast_signed()), id, user })
}

/// Cursor after which a search of entries continues, with the number of entries to skip there.
pub fn write_place(KvPlace { ns, key }: &KvPlace, left: usize) -> String {
    // Neither has this character.
    let extra = format!("{}\n{}", ns.as_str(), key.as_str());
    Cursor { extra, ..Cursor::new(CursorKind::Entries, Epoch::NONE, left as u64) }.to_string()
}

/// Place of an entry in a search, and the number of entries to skip after it.
pub fn read_place(text: &str) -> Result<(KvPlace, usize), Problem> {
    let Cursor { position, extra, .. } = read(text, &[CursorKind::Entries])?;
    let place = extra
        .split_once('\n')
        .and_then(|(ns, key)| Some(KvPlace { ns: KvNamespace::stored(ns)?, key: KvKey::new(key).ok()? }));
    Ok((place.ok_or_else(|| refused(text, CursorError::Damaged))?, skipped(position)))
}

/// Number of results to skip, at most the largest `offset` of a request.
fn skipped(position: u64) -> usize {
    usize::try_from(position).map_or(KV_SCANNED, |left| left.min(KV_SCANNED))
}

/// Cursor after which a list of namespaces continues, with the number of namespaces to skip there.
pub fn write_namespace(ns: &KvNamespace, left: usize) -> String {
    let extra = ns.as_str().to_owned();
    Cursor { extra, ..Cursor::new(CursorKind::Namespaces, Epoch::NONE, left as u64) }.to_string()
}

/// Namespace in such a list, and the number of namespaces to skip after it.
pub fn read_namespace(text: &str) -> Result<(KvNamespace, usize), Problem> {
    let Cursor { position, extra, .. } = read(text, &[CursorKind::Namespaces])?;
    let ns = KvNamespace::stored(&extra).ok_or_else(|| refused(text, CursorError::Damaged))?;
    Ok((ns, skipped(position)))
}

/// Cursor at which a list of checkpoints goes on.
pub fn write_checkpoint(CheckpointPosition { below, thread, ns }: &CheckpointPosition) -> String {
    // Neither has this character.
    let extra = format!("{below}\n{ns}");
    Cursor { extra, ..Cursor::new(CursorKind::Checkpoints, Epoch::NONE, thread.cast_unsigned()) }.to_string()
}

/// Position in a list of checkpoints.
pub fn read_checkpoint(text: &str) -> Result<CheckpointPosition, Problem> {
    let Cursor { position, extra, .. } = read(text, &[CursorKind::Checkpoints])?;
    let names = extra
        .split_once('\n')
        .filter(|(below, ns)| CheckpointId::new(*below).is_ok() && CheckpointNs::new(*ns).is_ok());
    let (below, ns) = names.ok_or_else(|| refused(text, CursorError::Damaged))?;
    Ok(CheckpointPosition { below: below.to_owned(), thread: position.cast_signed(), ns: ns.to_owned() })
}

fn write_thread(kind: CursorKind, ListPosition { at, id }: &ListPosition) -> String {
    Cursor { extra: id.to_string(), ..Cursor::new(kind, Epoch::NONE, at.0.cast_unsigned()) }.to_string()
}

fn read_thread(text: &str, kind: CursorKind) -> Result<ListPosition, Problem> {
    let Cursor { position, extra, .. } = read(text, &[kind])?;
    let id = ThreadId::new(&extra).map_err(|_| refused(text, CursorError::Damaged))?;
    Ok(ListPosition { at: Timestamp(position.cast_signed()), id })
}

/// Cursor of the next page of a list that is stored beside the log of a thread.
pub fn write_beside(kind: CursorKind, ListCursor { epoch, generation, number }: ListCursor) -> String {
    let extra = generation.map(|generation| generation.to_string()).unwrap_or_default();
    Cursor { extra, ..Cursor::new(kind, epoch, number) }.to_string()
}

/// Position in such a list.
pub fn read_beside(text: &str, kind: CursorKind) -> Result<ListCursor, Problem> {
    let Cursor { epoch, position, extra, .. } = read(text, &[kind])?;
    let generation = match &*extra {
        "" => None,
        number => Some(Generation(number.parse().map_err(|_| refused(text, CursorError::Damaged))?)),
    };
    Ok(ListCursor { epoch, generation, number: position })
}

/// Cursor of the next page of a project's audit log. The page before it is read, so it needs no epoch.
pub fn write_audit(number: i64) -> String {
    Cursor::new(CursorKind::Audit, Epoch::NONE, number.cast_unsigned()).to_string()
}

/// Position in the audit log.
pub fn read_audit(text: &str) -> Result<i64, Problem> {
    read(text, &[CursorKind::Audit]).map(|cursor| cursor.position.cast_signed())
}
