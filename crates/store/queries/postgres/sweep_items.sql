-- Removes operations on item lists, and removed items, that are older than a time. Answers with a row of their number, and one for each
-- thread of theirs: its owner and their bytes.
-- Caller: sweep in src/postgres/items.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 limit bigint: of each
-- $3 age bigint: in ms
-- example: NULL, 10, 86400000

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, old AS MATERIALIZED (
  SELECT key, list, op FROM item_ops
  WHERE at <= (SELECT now FROM c) - $3::bigint ORDER BY at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
), forgotten AS (
  DELETE FROM item_ops o USING old WHERE o.key = old.key AND o.list = old.list AND o.op = old.op RETURNING o.key, o.size
), over AS MATERIALIZED (
  SELECT key, list, pos FROM items
  WHERE gone_at <= (SELECT now FROM c) - $3 ORDER BY gone_at LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM items i USING over WHERE i.key = over.key AND i.list = over.list AND i.pos = over.pos RETURNING i.key, i.size
), sums AS MATERIALIZED (
  SELECT s.key, sum(s.size)::bigint AS bytes FROM (SELECT key, size FROM forgotten UNION ALL SELECT key, size FROM gone) AS s
  GROUP BY s.key ORDER BY s.key
), kept AS (
  UPDATE agent_data d SET bytes = d.bytes - s.bytes FROM sums s WHERE d.key = s.key
)
SELECT NULL::text, NULL::text, (SELECT count(*) FROM forgotten) + (SELECT count(*) FROM gone)
UNION ALL
SELECT t.project, t.user_id, s.bytes FROM sums s
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = s.key OFFSET 0) AS t
