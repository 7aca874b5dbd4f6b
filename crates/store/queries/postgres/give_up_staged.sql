-- Turns staged threads whose import was abandoned into tombstones.
-- Caller: give_up_staged in src/postgres/transfer.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 timeout bigint: STAGING_TIMEOUT in ms
-- example: NULL, 60000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
UPDATE threads AS t
SET deleted = 1
FROM c
WHERE t.deleted = 3 AND t.sort_at <= c.now - $2::bigint
RETURNING t.key
