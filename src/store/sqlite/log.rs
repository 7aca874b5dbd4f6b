//! Reading the log: a page is one statement, which walks only over the rows that it returns.

use async_trait::async_trait;
use sqlx::query;

use super::{
    SqliteStore, corrupt,
    fetch::Work,
    rows::{self, Columns, head_columns},
};
use crate::{
    domain::{
        LogSlice, RunId, Seq, ThreadKey, Timestamp,
        limits::{PAGE_BYTES, PAGE_ROWS},
    },
    store::{Append, Appended, Head, LogPage, LogStore, ReadFrom, StoreResult, segment::LogRow},
};

/// The head, then the rows of `page`: two kinds of rows told apart by the first column, from one snapshot.
/// Row columns stand where the head's `key, epoch, tail, fence, run` do; the body comes last.
macro_rules! page_query {
    ($page:literal) => {
        concat!(
            "WITH RECURSIVE page (row, first_seq, last_seq, bytes, rows, stop) AS (",
            $page,
            ") SELECT 0, ",
            head_columns!(h),
            ", NULL FROM heads h WHERE h.key = ?1
             UNION ALL
             SELECT 1, l.first_seq, l.last_seq, l.at, l.fence, r.id, NULL, NULL, NULL, NULL, l.body
             FROM page CROSS JOIN log l ON l.rowid = page.row LEFT JOIN runs r ON r.key = ?1 AND r.fence = l.fence"
        )
    };
}

/// Forwards: from the row that holds the event after `?2`, each next row begins where the one before ended.
/// `?3` bytes, `?4` rows, `?5` events.
pub(super) const AFTER: &str = page_query!(
    "SELECT rowid, first_seq, last_seq, raw, 1, ?2 + ?5 FROM log
     WHERE key = ?1 AND last_seq > ?2
       AND first_seq = (SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq <= ?2 + 1)
     UNION ALL
     SELECT l.rowid, l.first_seq, l.last_seq, page.bytes + l.raw, page.rows + 1, page.stop
     FROM page CROSS JOIN log l ON l.key = ?1 AND l.first_seq = page.last_seq + 1
     WHERE page.bytes < ?3 AND page.rows < ?4 AND page.last_seq < page.stop"
);

/// Backwards: from the row that holds the event before `?2`. `?3` bytes, `?4` rows, `?5` events.
pub(super) const BEFORE: &str = page_query!(
    "SELECT rowid, first_seq, last_seq, raw, 1, min(last_seq + 1, ?2) - ?5 FROM log
     WHERE key = ?1 AND first_seq = (SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq < ?2)
     UNION ALL
     SELECT l.rowid, l.first_seq, l.last_seq, page.bytes + l.raw, page.rows + 1, page.stop
     FROM page CROSS JOIN log l
       ON l.key = ?1 AND l.first_seq = (SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq < page.first_seq)
     WHERE page.bytes < ?3 AND page.rows < ?4 AND page.first_seq > page.stop"
);

pub(super) const HEADS: &str =
    concat!("SELECT ", head_columns!(h), " FROM json_each(?1) AS v CROSS JOIN heads h ON h.key = v.value");

/// How much of a log is read at once.
pub(super) struct Cap {
    pub(super) bytes: usize,
    pub(super) rows: usize,
    pub(super) events: usize,
}

impl SqliteStore {
    /// The head and rows in order; `None` if the thread is gone.
    pub(super) async fn log_rows(&self, key: ThreadKey, from: ReadFrom, cap: Cap) -> Work<Option<(Head, Vec<LogRow>)>> {
        let (text, cursor) = match from {
            ReadFrom::After(after) => (AFTER, after),
            ReadFrom::Before(before) => (BEFORE, before),
        };
        let statement = query(text)
            .bind(key.0)
            .bind(rows::to_i64(cursor))
            .bind(rows::limit(cap.bytes))
            .bind(rows::limit(cap.rows))
            .bind(rows::to_i64(cap.events as u64));
        let mut head = None;
        let mut log: Vec<LogRow> = Vec::new();
        let mut newest_run: Option<(i64, RunId)> = None;
        for row in self.read_rows(statement).await? {
            let mut columns = Columns::new(&row);
            if columns.int()? == 0 {
                head = columns.head()?.map(|(head, _)| head);
                continue;
            }
            let (first_seq, last_seq, at) = (columns.count()?, columns.count()?, Timestamp(columns.int()?));
            let run = match (columns.maybe_int()?, &newest_run) {
                (None, _) => None,
                (Some(fence), Some((same, run))) if fence == *same => Some(run.clone()),
                (Some(fence), _) => {
                    let run = columns.id(RunId::new)?;
                    newest_run = Some((fence, run.clone()));
                    Some(run)
                }
            };
            let body = Columns::new(&row).skip(10).bytes()?.into();
            log.push(LogRow { first_seq, last_seq, at, run, body });
        }
        log.sort_unstable_by_key(|row| row.first_seq);
        Ok(head.map(|head| (head, log)))
    }
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        if batch.is_empty() { Ok(Vec::new()) } else { self.append_all(batch).await }
    }

    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        let cap = Cap { bytes: PAGE_BYTES, rows: PAGE_ROWS, events: max_events };
        let Some((head, rows)) = self.log_rows(key, from, cap).await? else { return Ok(None) };
        let mut slice = LogSlice::default();
        for row in rows {
            slice.0.extend(row.unpack()?);
        }
        if slice.0.windows(2).any(|pair| pair[0].last_seq + 1 != pair[1].first_seq) {
            return Err(corrupt(format_args!("the log of thread {} has a hole", key.0)));
        }
        let max_events = max_events as u64;
        let slice = match from {
            ReadFrom::After(after) => slice.between(after, after.saturating_add(max_events).saturating_add(1)),
            ReadFrom::Before(before) => {
                let slice = slice.between(0, before);
                let end: Seq = slice.last_seq().unwrap_or(0);
                slice.between(end.saturating_sub(max_events), Seq::MAX)
            }
        };
        Ok(Some(LogPage { head, slice }))
    }

    async fn heads(&self, keys: &[ThreadKey]) -> StoreResult<Vec<Head>> {
        let list = serde_json::json!(keys.iter().map(|key| key.0).collect::<Vec<_>>()).to_string();
        let mut heads = Vec::with_capacity(keys.len());
        for row in self.read_rows(query(HEADS).bind(list)).await? {
            heads.extend(Columns::new(&row).head()?.map(|(head, _)| head));
        }
        Ok(heads)
    }

    async fn seal(&self, key: ThreadKey) -> StoreResult<bool> {
        self.seal_rows(key).await
    }

    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.unsealed(limit).await
    }
}
