-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once,
-- which ends every append, start, close and read.
-- Caller: delete_thread in src/postgres/threads.rs
-- $1 key bigint
-- example: 1

WITH gone AS (
  DELETE FROM heads WHERE key = $1 RETURNING key
), buried AS (
  UPDATE threads AS t SET deleted = 1, version = t.version + 1 FROM gone WHERE t.key = $1
), turns_gone AS (
  DELETE FROM turns AS t USING gone WHERE t.key = $1
)
SELECT key FROM gone
