-- Removes a chunk of the log of a deleted thread. Other nodes may be purging the same thread, or sealing it: locked
-- rows are skipped, so that no node waits for another.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT first_seq FROM log WHERE key = $1 ORDER BY first_seq LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM log USING doomed d WHERE log.key = $1 AND log.first_seq = d.first_seq RETURNING log.key
)
SELECT count(*) FROM gone
