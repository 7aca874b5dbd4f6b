-- Finds sums that were last counted long ago, the longest ago first.
-- Caller: due_usage in src/sql/tables/usage.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 age bigint: in ms
-- $3 limit bigint
-- example: NULL, 86400000, 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT u.project, u.owner FROM usage u
WHERE u.checked_at <= (SELECT now FROM c) - $2::bigint ORDER BY u.checked_at LIMIT $3::bigint
