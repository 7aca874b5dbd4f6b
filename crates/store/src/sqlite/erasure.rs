//! Retention and erasure: idle threads, and the data of users.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Footprint, ProjectId, ThreadKey, Timestamp, UserId, limits::FORGET_ENTRIES};

use super::{
    SqliteStore,
    rows::{self, Columns, head_columns, run_columns, thread_columns},
};
use crate::{ErasureStore, IdlePage, StoreResult, sql::pages};

/// The next position is in every row, and in one without a thread if the window has none. `deleted < 1` and not `= 0`:
/// the statement must walk over the threads of the window, not over all of the project.
pub(super) const IDLE: &str = concat!(
    "SELECT w.next, ",
    thread_columns!(),
    " FROM (SELECT max(key) AS last, CASE WHEN count(*) >= ?4 THEN max(key) END AS next
            FROM (SELECT key FROM threads WHERE key > ?3 ORDER BY key LIMIT ?4) AS page) AS w
     LEFT JOIN threads t ON t.key > ?3 AND t.key <= w.last AND t.deleted < 1 AND t.project = ?1 AND t.sort_at < ?2
       AND NOT EXISTS (SELECT 1 FROM heads WHERE heads.key = t.key AND heads.run IS NOT NULL)
     LEFT JOIN heads h ON h.key = t.key
     LEFT JOIN runs r ON r.key = h.key AND r.fence = h.fence AND h.run IS NOT NULL
     ORDER BY t.key"
);
/// Footprint of a user's live threads.
pub(super) const FOOTPRINT: &str = "\
    SELECT count(*), coalesce(sum((SELECT count(*) FROM runs r WHERE r.key = t.key)), 0), coalesce(sum(h.tail), 0),
           coalesce(sum((SELECT count(*) FROM snapshots s WHERE s.key = t.key)), 0),
           coalesce(sum((SELECT count(*) FROM annotations a WHERE a.key = t.key)), 0)
    FROM threads t CROSS JOIN heads h ON h.key = t.key WHERE t.project = ?1 AND t.user = ?2 AND t.deleted = 0";
/// `deleted > 0` is the condition of the partial index: it holds all threads that are to be purged, and those being
/// imported.
pub(super) const REST: &str = "\
    SELECT (SELECT count(*) FROM feed_entries WHERE project = ?1 AND user = ?2),
           (SELECT count(*) FROM threads WHERE deleted > 0 AND deleted < 3 AND project = ?1 AND user = ?2)";
pub(super) const FORGET_SOME: &str = "\
    DELETE FROM feed_entries
    WHERE project = ?1 AND user = ?2
      AND pos IN (SELECT pos FROM feed_entries WHERE project = ?1 AND user = ?2 ORDER BY pos LIMIT ?3)";
/// A purged tombstone remains only for the feed, which owes it a position.
pub(super) const FORGET: &str = "\
    DELETE FROM feed_entries WHERE project = ?1 AND user = ?2;
    DELETE FROM feed_heads WHERE project = ?1 AND user = ?2;
    DELETE FROM threads WHERE project = ?1 AND user = ?2 AND version > fed_version AND deleted = 2";

#[async_trait]
impl ErasureStore for SqliteStore {
    async fn idle_threads(
        &self,
        project: &ProjectId,
        before: Timestamp,
        after: Option<ThreadKey>,
        window: usize,
    ) -> StoreResult<IdlePage> {
        let idle = query(IDLE)
            .bind(project.as_str())
            .bind(before.0)
            .bind(after.map_or(i64::MIN, |key| key.0))
            .bind(rows::limit(window));
        pages::idle_page(&self.read_rows(idle).await?)
    }

    async fn footprint(&self, project: &ProjectId, user: &UserId) -> StoreResult<Footprint> {
        let mut print = Footprint::default();
        let of = |text| query(text).bind(project.as_str()).bind(user.as_str());
        if let Some(row) = self.read_rows(of(FOOTPRINT)).await?.first() {
            pages::count_threads(&mut print, &mut Columns::new(row))?;
        }
        if let Some(row) = self.read_rows(of(REST)).await?.first() {
            let mut columns = Columns::new(row);
            (print.feed_entries, print.tombstones) = (columns.count()?, columns.count()?);
        }
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let of = |text| query(text).bind(project.to_string()).bind(user.to_string());
        while self.change(of(FORGET_SOME).bind(rows::limit(FORGET_ENTRIES))).await? >= FORGET_ENTRIES as u64 {}
        self.change(of(FORGET)).await.map(drop)
    }
}
