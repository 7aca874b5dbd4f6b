-- Makes a job whose claim is still the caller's due after a time.
-- Caller: end_job in src/sql/tables/jobs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kind text
-- $3 ref text
-- $4 until bigint: end of the claim
-- $5 delay bigint: in ms
-- $6 tries bigint: kept from now on
-- example: NULL, 'pack', '1', 60000, 1000, 0

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
UPDATE jobs AS j
SET due_at = c.now + $5::bigint, tries = $6::bigint
FROM c
WHERE j.kind = $2::text AND j.ref = $3::text AND j.due_at = $4::bigint
RETURNING j.ref
