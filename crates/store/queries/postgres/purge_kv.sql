-- Removes a chunk of the key-value entries that go with a deleted thread. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint: of the thread
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT project, owner, ns, key FROM kv WHERE thread = $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM kv USING doomed d
  WHERE kv.project = d.project AND kv.owner = d.owner AND kv.ns = d.ns AND kv.key = d.key
  RETURNING kv.key
)
SELECT count(*) FROM gone
