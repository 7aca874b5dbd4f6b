//! Verification: the tables of a store, without the joins in which a contradiction disappears.

use async_trait::async_trait;
use threadline_core::{ProjectId, ThreadId, ThreadKey};

use super::{Tables, Value, export::page};
use crate::{
    CountedQueue, KeyedTable, ListedThread, StoreResult, StoredEntry, VerifyStore,
    sql::{
        columns::{Cells, Columns},
        limit as count, pages,
    },
};

const THREADS: &str = "\
    SELECT t.key, t.project, t.id, CAST(CASE WHEN t.deleted = 4 THEN 1 ELSE 0 END AS bigint),
      CAST(CASE WHEN EXISTS (
        SELECT 1 FROM heads h WHERE h.key = CASE WHEN t.deleted = 4 THEN -t.key ELSE t.key END
      ) THEN 1 ELSE 0 END AS bigint)
    FROM threads t WHERE t.key > $1 AND t.deleted IN (0, 4) ORDER BY t.key LIMIT $2";

const HEADS: &str = "\
    SELECT h.key, CAST(CASE WHEN EXISTS (SELECT 1 FROM threads t WHERE t.key = abs(h.key)) THEN 1 ELSE 0 END AS bigint)
    FROM heads h WHERE h.key > $1 ORDER BY h.key LIMIT $2";

/// Turns keep the key of their thread while it is in the trash.
const QUEUES: &str = "\
    SELECT h.key, t.project, t.id, h.queued,
      (SELECT count(*) FROM turns q WHERE q.key = abs(h.key) AND q.place IS NOT NULL)
    FROM heads h JOIN threads t ON t.key = abs(h.key)
    WHERE h.key > $1 ORDER BY h.key LIMIT $2";

const QUEUES_WITHOUT_HEAD: &str = "\
    SELECT DISTINCT q.key FROM turns q
    WHERE q.key > $1 AND q.place IS NOT NULL AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.key IN (q.key, -q.key))
    ORDER BY q.key LIMIT $2";

/// Each step finds the next key in the index, whatever the number of rows that a key has.
const RUNS: &str = "\
    WITH RECURSIVE k (key, n) AS (
      SELECT (SELECT min(key) FROM runs WHERE key > $1), 1
      UNION ALL
      SELECT (SELECT min(r.key) FROM runs r WHERE r.key > k.key), k.n + 1 FROM k WHERE k.key IS NOT NULL AND k.n < $2
    )
    SELECT k.key, CAST(CASE WHEN EXISTS (SELECT 1 FROM threads t WHERE t.key = k.key) THEN 1 ELSE 0 END AS bigint)
    FROM k WHERE k.key IS NOT NULL ORDER BY k.key";

const LOG: &str = "\
    WITH RECURSIVE k (key, n) AS (
      SELECT (SELECT min(key) FROM log WHERE key > $1), 1
      UNION ALL
      SELECT (SELECT min(l.key) FROM log l WHERE l.key > k.key), k.n + 1 FROM k WHERE k.key IS NOT NULL AND k.n < $2
    )
    SELECT k.key, CAST(CASE WHEN EXISTS (SELECT 1 FROM threads t WHERE t.key = k.key) THEN 1 ELSE 0 END AS bigint)
    FROM k WHERE k.key IS NOT NULL ORDER BY k.key";

#[async_trait]
impl<S: Tables> VerifyStore for S
where
    S: crate::TransferStore,
{
    async fn damage(&self, limit: usize) -> StoreResult<Vec<String>> {
        self.damaged_files(limit).await
    }

    async fn listed_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ListedThread>> {
        let rows = self.found(THREADS, page(after, limit)).await?;
        pages::each(&rows, |columns| {
            let (key, id) = (ThreadKey(columns.int()?), public_id(columns)?);
            Ok(ListedThread { key, id, trashed: columns.int()? != 0, has_head: columns.int()? != 0 })
        })
    }

    async fn keys_in(
        &self,
        table: KeyedTable,
        after: Option<ThreadKey>,
        limit: usize,
    ) -> StoreResult<Vec<(ThreadKey, bool)>> {
        let text = match table {
            KeyedTable::Heads => HEADS,
            KeyedTable::Runs => RUNS,
            KeyedTable::Log => LOG,
        };
        let rows = self.found(text, page(after, limit)).await?;
        pages::each(&rows, |columns| Ok((ThreadKey(columns.int()?), columns.int()? != 0)))
    }

    async fn counted_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<CountedQueue>> {
        let rows = self.found(QUEUES, page(after, limit)).await?;
        pages::each(&rows, |columns| {
            let (key, id) = (ThreadKey(columns.int()?), public_id(columns)?);
            Ok(CountedQueue { key, id, counted: columns.count()?, stored: columns.count()? })
        })
    }

    async fn queues_without_head(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<ThreadKey>> {
        let rows = self.found(QUEUES_WITHOUT_HEAD, page(after, limit)).await?;
        pages::each(&rows, |columns| Ok(ThreadKey(columns.int()?)))
    }

    async fn stored_entries(&self, after: Option<&StoredEntry>, limit: usize) -> StoreResult<Vec<StoredEntry>> {
        // No id is empty, so an empty pair comes before all others.
        let (project, user, pos) = after.map_or(("", "", 0), |entry| (&*entry.project, &*entry.user, entry.pos));
        let values: Vec<Value> = vec![project.into(), user.into(), pos.into(), count(limit).into()];
        let rows = self.found(S::STATEMENTS.stored_entries, values).await?;
        pages::each(&rows, |columns: &mut Columns<'_, S::Row>| {
            Ok(StoredEntry {
                project: columns.text()?,
                user: columns.text()?,
                pos: columns.int()?,
                thread: columns.text()?,
                key: columns.maybe_int()?.map(ThreadKey),
                has_thread: columns.int()? != 0,
            })
        })
    }
}

/// Project and public id of a thread, from the next two columns; `None` if they are not valid ids.
fn public_id<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<Option<(ProjectId, ThreadId)>> {
    let id = (ProjectId::new(columns.text()?), ThreadId::new(columns.text()?));
    Ok(if let (Ok(project), Ok(id)) = id { Some((project, id)) } else { None })
}
