//! The feed: a compacted change index. A thread's own commit makes it dirty (version > fed_version); here dirty threads
//! get their positions. Several nodes may feed one user at once.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    ProjectId, ThreadId, UserId,
    limits::{FEED_CHUNK, PG_RACES},
};

use super::{
    PgStore,
    rows::{self, Columns, head_columns, run_columns, thread_columns},
};
use crate::{FeedPage, FeedStore, StoreResult, sql::pages};

/// Gives a chunk of dirty threads their positions, in one statement.
///
/// The statement waits for no thread: threads that another transaction has locked at this moment are left out. Then it
/// takes the feed's head, for which it may wait; the positions of two such statements are never mixed, and become
/// visible in their order. Deleted threads come first, so that a thread created again under an id replaces the entry of
/// its deletion. If another pump placed that thread before the deletion gets here, the entry keeps the thread: a
/// deletion removes only its own thread from an entry. A purged tombstone is not needed any more. Returns the newest
/// position, and the numbers of dirty threads seen and fed.
pub(super) const PUMP: &str = "\
    WITH seen AS MATERIALIZED (
      SELECT key FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version LIMIT $3::bigint + 1
    ), dirty AS MATERIALIZED (
      SELECT key, id, deleted FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version
      ORDER BY deleted = 0, key LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
    ), head AS (
      INSERT INTO feed_heads AS f (project, user_id, head)
      SELECT $1, $2, count(*) FROM dirty HAVING count(*) > 0
      ON CONFLICT (project, user_id) DO UPDATE SET head = f.head + excluded.head
      RETURNING f.head
    ), placed AS MATERIALIZED (
      SELECT d.key, d.id, d.deleted,
             head.head - (SELECT count(*) FROM dirty) + row_number() OVER (ORDER BY d.deleted = 0, d.key) AS pos
      FROM dirty d CROSS JOIN head
    ), put AS (
      INSERT INTO feed_entries AS e (project, user_id, thread, pos, key)
      SELECT DISTINCT ON (id) $1, $2, id, pos, CASE WHEN deleted = 0 THEN key END FROM placed ORDER BY id, pos DESC
      ON CONFLICT (project, user_id, thread) DO UPDATE SET pos = excluded.pos,
        key = CASE WHEN excluded.key IS NULL AND NOT e.key = ANY (ARRAY(SELECT key FROM placed)) THEN e.key
              ELSE excluded.key END
    ), fed AS (
      UPDATE threads AS t SET fed_version = t.version FROM dirty d WHERE d.deleted < 2 AND t.key = d.key
    ), swept AS (
      DELETE FROM threads AS t USING dirty d WHERE d.deleted = 2 AND t.key = d.key
    )
    SELECT coalesce((SELECT head FROM head), (SELECT head FROM feed_heads WHERE project = $1 AND user_id = $2), 0),
           (SELECT count(*) FROM seen), (SELECT count(*) FROM dirty)";
const HEAD: &str = "SELECT head FROM feed_heads WHERE project = $1 AND user_id = $2";
pub(super) const FEED_HEADS: &str = "\
    SELECT coalesce(f.head, 0) FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS v (project, user_id, n)
    LEFT JOIN LATERAL (SELECT head FROM feed_heads h WHERE h.project = v.project AND h.user_id = v.user_id OFFSET 0) f
      ON TRUE
    ORDER BY v.n";
pub(super) const STATE: &str = "\
    SELECT coalesce((SELECT head FROM feed_heads WHERE project = $1 AND user_id = $2), 0),
           EXISTS (SELECT 1 FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version)";
/// Every row has the head of the feed; if there is no entry, one row has the head alone.
pub(super) const PAGE: &str = concat!(
    "SELECT f.head, e.pos, e.thread, ",
    thread_columns!(),
    " FROM feed_heads f
     LEFT JOIN (SELECT pos, thread, key FROM feed_entries WHERE project = $1 AND user_id = $2 AND pos > $3
                ORDER BY pos LIMIT $4) e ON TRUE
     LEFT JOIN LATERAL (SELECT * FROM threads WHERE threads.key = e.key AND threads.deleted < 1 OFFSET 0) AS t ON TRUE
     LEFT JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h ON TRUE
     LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
       ON TRUE
     WHERE f.project = $1 AND f.user_id = $2 ORDER BY e.pos"
);
pub(super) const WAS_DELETED: &str = "\
    SELECT NOT EXISTS (SELECT 1 FROM threads WHERE project = $1 AND id = $3 AND user_id = $2 AND deleted = 0)
       AND (EXISTS (SELECT 1 FROM feed_entries WHERE project = $1 AND user_id = $2 AND thread = $3 AND key IS NULL)
            OR EXISTS (SELECT 1 FROM threads
                       WHERE project = $1 AND user_id = $2 AND id = $3 AND deleted > 0 AND version > fed_version))";
pub(super) const DIRTY_FEEDS: &str = "\
    SELECT DISTINCT project, user_id FROM threads WHERE version > fed_version ORDER BY project, user_id LIMIT $1";

impl PgStore {
    pub(super) async fn feed_head(&self, project: &ProjectId, user: &UserId) -> StoreResult<u64> {
        let rows = self.read_rows(query(HEAD).bind(project.as_str()).bind(user.as_str())).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(row).count())
    }
}

#[async_trait]
impl FeedStore for PgStore {
    async fn pump_feed(&self, project: &ProjectId, user: &UserId) -> StoreResult<u64> {
        // Most often there is nothing to do.
        let state = self.read_rows(query(STATE).bind(project.as_str()).bind(user.as_str())).await?;
        let Some(row) = state.first() else { return Ok(0) };
        let mut columns = Columns::new(row);
        let (mut head, dirty) = (columns.count()?, columns.flag()?);
        let mut missed = if dirty { 0 } else { PG_RACES };
        while missed < PG_RACES {
            let pump = query(PUMP).bind(project.as_str()).bind(user.as_str()).bind(rows::limit(FEED_CHUNK));
            let rows = self.write(pump).await?;
            let Some(row) = rows.first() else { break };
            let mut columns = Columns::new(row);
            head = columns.count()?;
            let (seen, fed) = (columns.count()?, columns.count()?);
            if seen <= fed {
                break;
            }
            // Threads that other transactions have locked are retried a few times. Then these transactions, which end
            // with a change to be fed, are responsible for them, or the sweep is.
            if fed == 0 {
                missed += 1;
            }
        }
        Ok(head)
    }

    async fn feed(&self, project: &ProjectId, user: &UserId, after: u64, limit: usize) -> StoreResult<FeedPage> {
        let statement =
            query(PAGE).bind(project.as_str()).bind(user.as_str()).bind(rows::to_i64(after)).bind(rows::limit(limit));
        pages::feed_page(&self.read_rows(statement).await?)
    }

    async fn was_deleted(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> StoreResult<bool> {
        let statement = query(WAS_DELETED).bind(project.as_str()).bind(user.as_str()).bind(id.as_str());
        let rows = self.read_rows(statement).await?;
        rows.first().map_or(Ok(false), |row| Columns::new(row).flag())
    }

    async fn feed_heads(&self, feeds: &[(ProjectId, UserId)]) -> StoreResult<Vec<u64>> {
        let projects: Vec<&str> = feeds.iter().map(|(project, _)| project.as_str()).collect();
        let users: Vec<&str> = feeds.iter().map(|(_, user)| user.as_str()).collect();
        let rows = self.read_rows(query(FEED_HEADS).bind(projects).bind(users)).await?;
        rows.iter().map(|row| Columns::new(row).count()).collect()
    }

    async fn dirty_feeds(&self, limit: usize) -> StoreResult<Vec<(ProjectId, UserId)>> {
        pages::feeds(&self.read_rows(query(DIRTY_FEEDS).bind(rows::limit(limit))).await?)
    }
}
