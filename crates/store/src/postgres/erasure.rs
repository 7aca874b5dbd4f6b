//! Search for idle threads, and erasure of users.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Footprint, ProjectId, ThreadKey, Timestamp, UserId,
    limits::{FOOTPRINT_THREADS, FORGET_ENTRIES, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, Columns, head_columns, run_columns, thread_columns},
};
use crate::{ErasureStore, IdlePage, StoreError, StoreResult, sql::pages};

/// Every row has the key after which the search continues; if there is no thread, one row has this key alone.
pub(super) const IDLE: &str = concat!(
    "SELECT w.next, ",
    thread_columns!(),
    " FROM (SELECT max(key) AS last, CASE WHEN count(*) >= $4::bigint THEN max(key) END AS next
            FROM (SELECT key FROM threads WHERE key > $3::bigint ORDER BY key LIMIT $4) AS k) AS w
     LEFT JOIN LATERAL (
       SELECT * FROM threads
       WHERE threads.key > $3 AND threads.key <= w.last AND threads.deleted < 1 AND threads.project = $1::text
         AND threads.sort_at < $2::bigint
         AND NOT (SELECT active FROM heads WHERE heads.key = threads.key) OFFSET 0) AS t ON TRUE
     LEFT JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h ON TRUE
     LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
       ON TRUE
     ORDER BY t.key"
);
/// Counts over up to `$5` live threads after the position `$3`, `$4`, in order of creation; then the position reached.
pub(super) const FOOTPRINT: &str = "\
    WITH own AS MATERIALIZED (
      SELECT key, created_at, id FROM threads
      WHERE project = $1 AND user_id = $2 AND deleted = 0
        AND created_at >= $3::bigint AND (created_at > $3 OR id > $4::text)
      ORDER BY created_at, id LIMIT $5::bigint
    )
    SELECT count(*), coalesce(sum(r.n), 0)::bigint, coalesce(sum(h.tail), 0)::bigint, coalesce(sum(s.n), 0)::bigint,
           coalesce(sum(a.n), 0)::bigint, (SELECT created_at FROM own ORDER BY created_at DESC, id DESC LIMIT 1),
           (SELECT id FROM own ORDER BY created_at DESC, id DESC LIMIT 1)
    FROM own
    CROSS JOIN LATERAL (SELECT tail FROM heads WHERE heads.key = own.key OFFSET 0) AS h
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM runs WHERE runs.key = own.key) AS r
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM snapshots WHERE snapshots.key = own.key) AS s
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM annotations WHERE annotations.key = own.key) AS a";
/// Tombstones with rows left are searched among all of these tombstones; purged ones, among the threads that the feed
/// searches.
pub(super) const REST: &str = "\
    SELECT (SELECT count(*) FROM feed_entries WHERE project = $1 AND user_id = $2),
           (SELECT count(*) FROM threads WHERE deleted = 1 AND project = $1 AND user_id = $2)
           + (SELECT count(*) FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version AND deleted = 2)";
/// A pump may be writing some of the entries: locked ones are skipped, so that no statement waits for another.
pub(super) const FORGET_SOME: &str = "\
    WITH chunk AS MATERIALIZED (
      SELECT thread FROM feed_entries WHERE project = $1::text AND user_id = $2::text
      ORDER BY pos LIMIT $3::bigint FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM feed_entries
      WHERE project = $1 AND user_id = $2 AND thread = ANY (ARRAY(SELECT thread FROM chunk)) RETURNING thread
    )
    SELECT count(*) FROM gone";
/// Locks purged tombstones first, then the feed's head, in the order of the pump. The head must be the one in the
/// statement's snapshot: a pump that the statement waited for has put entries that the snapshot lacks, and positions
/// that would be given twice. In this case no part of the feed is removed. Returns whether all of it is.
pub(super) const FORGET: &str = "\
    WITH seen AS MATERIALIZED (
      SELECT head FROM feed_heads WHERE project = $1::text AND user_id = $2::text
    ), dead AS MATERIALIZED (
      SELECT key FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version AND deleted = 2
      ORDER BY key FOR UPDATE
    ), swept AS (
      DELETE FROM threads WHERE key = ANY (ARRAY(SELECT key FROM dead))
    ), head AS (
      DELETE FROM feed_heads AS f USING seen
      WHERE f.project = $1 AND f.user_id = $2 AND f.head = seen.head AND (SELECT count(*) FROM dead) >= 0
      RETURNING f.head
    ), entries AS (
      DELETE FROM feed_entries AS e USING head WHERE e.project = $1 AND e.user_id = $2
    )
    SELECT (SELECT count(*) FROM seen) = (SELECT count(*) FROM head)
       AND (SELECT count(*) FROM dead) = (SELECT count(*) FROM threads WHERE project = $1 AND user_id = $2
                                          AND version > fed_version AND deleted = 2)";

#[async_trait]
impl ErasureStore for PgStore {
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
        let (mut at, mut id) = (i64::MIN, String::new());
        loop {
            let part = of(FOOTPRINT).bind(at).bind(&id).bind(rows::limit(FOOTPRINT_THREADS));
            let found = self.read_rows(part).await?;
            let Some(row) = found.first() else { break };
            let mut columns = Columns::new(row);
            if pages::count_threads(&mut print, &mut columns)? < FOOTPRINT_THREADS as u64 {
                break;
            }
            (at, id) = (columns.int()?, columns.text()?);
        }
        if let Some(row) = self.read_rows(of(REST)).await?.first() {
            let mut columns = Columns::new(row);
            (print.feed_entries, print.tombstones) = (columns.count()?, columns.count()?);
        }
        Ok(print)
    }

    async fn forget_user(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        let of = |text| query(text).bind(project.as_str()).bind(user.as_str());
        loop {
            let gone = self.write(of(FORGET_SOME).bind(rows::limit(FORGET_ENTRIES))).await?;
            if gone.first().map_or(Ok(0), |row| Columns::new(row).count())? < FORGET_ENTRIES as u64 {
                break;
            }
        }
        for _ in 0..PG_RACES {
            let forgotten = self.write(of(FORGET)).await?;
            if forgotten.first().map_or(Ok(true), |row| Columns::new(row).flag())? {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable("the feed is changing too fast; try again".to_owned()))
    }
}
