-- Removes key-value entries that have expired, and removals that are no longer remembered. Answers with the owner and the bytes of each.
-- Caller: sweep_kv in src/sql/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 limit bigint
-- example: NULL, 10

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, over AS MATERIALIZED (
  SELECT project, owner, ns, key FROM kv
  WHERE expires_at IS NOT NULL AND coalesce(removed_until, expires_at) <= (SELECT now FROM c)
  ORDER BY coalesce(removed_until, expires_at) LIMIT $2::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM kv USING over o
WHERE kv.project = o.project AND kv.owner = o.owner AND kv.ns = o.ns AND kv.key = o.key
RETURNING kv.project, kv.owner, kv.size
