-- Reads the state of a thread that is to be purged, as `deleted` has it; if it is staged, the time of its last step and the
-- time since; if it is in the trash, the time left.
-- Caller: purge in src/postgres/threads.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- example: NULL, 1

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT t.deleted, t.sort_at, c.now - t.sort_at, t.purge_at - c.now FROM threads AS t CROSS JOIN c WHERE t.key = $2::bigint
