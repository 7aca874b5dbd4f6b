-- Removes a chunk of the key-value entries that go with a deleted thread, and subtracts those of users from the sums of their users and
-- projects. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint: of the thread
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT project, owner, ns, key FROM kv WHERE thread = $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM kv USING doomed d
  WHERE kv.project = d.project AND kv.owner = d.owner AND kv.ns = d.ns AND kv.key = d.key
  RETURNING kv.project, kv.owner, kv.size
), sums AS MATERIALIZED (
  SELECT project, owner, sum(size)::bigint AS bytes FROM gone WHERE owner <> '' GROUP BY project, owner
), spent AS (
  INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
  SELECT s.project, s.owner, -s.bytes, 0, 0 FROM (
    SELECT project, owner, bytes FROM sums
    UNION ALL
    SELECT project, '', sum(bytes)::bigint FROM sums GROUP BY project
  ) AS s
  ORDER BY s.owner = '', s.project, s.owner
  ON CONFLICT (project, owner) DO UPDATE SET bytes = u.bytes + excluded.bytes
)
SELECT count(*) FROM gone
