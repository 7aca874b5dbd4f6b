-- Removes a chunk of the runs of a deleted thread. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT fence FROM runs WHERE key = $1 ORDER BY fence LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM runs USING doomed d WHERE runs.key = $1 AND runs.fence = d.fence RETURNING runs.key
)
SELECT count(*) FROM gone
