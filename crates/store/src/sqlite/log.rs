//! Reads of the log: a page is one statement, which walks only over the rows that it returns.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::ThreadKey;

use super::{
    SqliteStore,
    fetch::Work,
    rows::{self, Columns, head_columns},
};
use crate::{
    Append, Appended, Head, LogPage, LogStore, ReadFrom, StoreResult,
    segment::LogRow,
    sql::{
        append::append_all,
        pages::{self, Cap},
        seal,
    },
};

/// The head, then the rows of `page`: two kinds of rows, distinguished by the first column, from one snapshot. Row
/// columns are in the positions of the head's `key, epoch, tail, fence, run`; the body comes last.
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

impl SqliteStore {
    /// Reads the head and the rows in order; `None` if the thread was deleted.
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
        Ok(pages::log_rows(&self.read_rows(statement).await?)?)
    }
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn append(&self, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
        append_all(self, batch).await
    }

    async fn read(&self, key: ThreadKey, from: ReadFrom, max_events: usize) -> StoreResult<Option<LogPage>> {
        let Some((head, rows)) = self.log_rows(key, from, Cap::page(max_events)).await? else { return Ok(None) };
        pages::log_page(head, rows, from, max_events).map(Some)
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
        seal::seal(self, key).await
    }

    async fn seal_backlog(&self, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        self.unsealed(limit).await
    }
}
