-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once,
-- which ends every append, start, close and read.
-- Caller: delete_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 epoch bigint: that the log must have or have had before, or NULL
-- example: 1, NULL

WITH gone AS (
  DELETE FROM heads WHERE key = $1 AND ($2::bigint IS NULL OR $2 IN (epoch, prior_epoch)) RETURNING key
), buried AS (
  UPDATE threads AS t SET deleted = 1, version = t.version + 1 FROM gone WHERE t.key = $1
), turns_gone AS (
  DELETE FROM turns AS t USING gone WHERE t.key = $1
)
SELECT key FROM gone
