-- Removes a chunk of the items of a deleted thread, and of the operations on its lists. Rows that another node has locked are skipped.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT list, pos FROM items WHERE key = $1 ORDER BY list, pos LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM items i USING doomed d WHERE i.key = $1 AND i.list = d.list AND i.pos = d.pos RETURNING i.key
), old AS MATERIALIZED (
  SELECT list, op FROM item_ops WHERE key = $1 ORDER BY list, op LIMIT $2 FOR UPDATE SKIP LOCKED
), forgotten AS (
  DELETE FROM item_ops o USING old WHERE o.key = $1 AND o.list = old.list AND o.op = old.op RETURNING o.key
)
SELECT greatest((SELECT count(*) FROM gone), (SELECT count(*) FROM forgotten))
