-- Corrects the sum of a user, and that of the project, by what a count has found.
-- Caller: count_usage in src/sql/tables/usage.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 user text
-- $4 bytes bigint: to be added
-- $5 threads bigint: to be added
-- example: NULL, 'p', 'u', 10, 1

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
SELECT $2::text, o.owner, $4::bigint, $5::bigint, c.now FROM (VALUES ($3::text), ('')) AS o (owner)
CROSS JOIN c
ORDER BY o.owner = ''
ON CONFLICT (project, owner)
DO UPDATE SET bytes = u.bytes + excluded.bytes, threads = u.threads + excluded.threads,
  checked_at = CASE WHEN u.owner = $3 THEN excluded.checked_at ELSE u.checked_at END
RETURNING u.owner
