-- Removes a chunk of the checkpoints of a deleted thread, of their blobs and of the writes beside them. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint: of each
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT ns, id FROM checkpoints WHERE key = $1 ORDER BY ns, id LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM checkpoints k USING doomed d WHERE k.key = $1 AND k.ns = d.ns AND k.id = d.id RETURNING k.key
), old_blobs AS MATERIALIZED (
  SELECT ns, channel, version FROM checkpoint_blobs WHERE key = $1 ORDER BY ns, channel, version LIMIT $2 FOR UPDATE SKIP LOCKED
), blobs_gone AS (
  DELETE FROM checkpoint_blobs b USING old_blobs o
  WHERE b.key = $1 AND b.ns = o.ns AND b.channel = o.channel AND b.version = o.version RETURNING b.key
), old_writes AS MATERIALIZED (
  SELECT ns, id, task, idx FROM checkpoint_writes WHERE key = $1 ORDER BY ns, id, task, idx LIMIT $2 FOR UPDATE SKIP LOCKED
), writes_gone AS (
  DELETE FROM checkpoint_writes w USING old_writes o
  WHERE w.key = $1 AND w.ns = o.ns AND w.id = o.id AND w.task = o.task AND w.idx = o.idx RETURNING w.key
)
SELECT greatest((SELECT count(*) FROM gone), (SELECT count(*) FROM blobs_gone), (SELECT count(*) FROM writes_gone))
