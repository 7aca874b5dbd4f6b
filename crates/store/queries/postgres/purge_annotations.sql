-- Removes a chunk of the annotations of a deleted thread. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT number FROM annotations WHERE key = $1 ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM annotations a USING doomed d WHERE a.key = $1 AND a.number = d.number RETURNING a.key
)
SELECT count(*) FROM gone
