-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once,
-- which ends every append, start, close and read. The deletion of a thread that was created with an idempotency key is
-- noted.
-- Caller: delete_thread in src/postgres/threads.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 epoch bigint: that the log must have or have had before, or NULL
-- example: NULL, 1, NULL

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, gone AS (
  DELETE FROM heads WHERE key = $2 AND ($3::bigint IS NULL OR $3 IN (epoch, prior_epoch)) RETURNING key
), buried AS (
  UPDATE threads AS t SET deleted = 1, version = t.version + 1 FROM gone WHERE t.key = $2
  RETURNING t.project, t.id, t.request
), turns_gone AS (
  DELETE FROM turns AS t USING gone WHERE t.key = $2
), noted AS (
  INSERT INTO deleted_requests (project, thread, at)
  SELECT b.project, b.id, c.now FROM buried b CROSS JOIN c WHERE b.request IS NOT NULL
  ON CONFLICT (project, thread) DO UPDATE SET at = excluded.at
), queued AS (
  INSERT INTO jobs AS j (kind, ref, due_at) SELECT 'purge', gone.key::text, c.now FROM gone CROSS JOIN c
  ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0
)
SELECT key FROM gone
