-- Corrects the sum of a project by its difference to the sums of the users.
-- Caller: count_usage in src/sql/tables/usage.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 bytes bigint: to be added
-- $4 threads bigint: to be added
-- example: NULL, 'p', 0, 0

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
UPDATE usage AS u SET bytes = u.bytes + $3::bigint, threads = u.threads + $4::bigint, checked_at = c.now FROM c
WHERE u.project = $2::text AND u.owner = ''
RETURNING u.owner
