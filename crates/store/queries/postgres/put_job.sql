-- Puts a job that is due after a time, in place of the one there is or only if there is none. Answers with a row if it did.
-- Caller: put_job in src/sql/tables/jobs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kind text
-- $3 ref text
-- $4 after bigint: in ms
-- $5 anew bigint: 1 to replace a job
-- example: NULL, 'clock-step', '', 60000, 1

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
INSERT INTO jobs AS j (kind, ref, due_at)
SELECT $2::text, $3::text, c.now + $4::bigint FROM c
ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0 WHERE $5::bigint > 0
RETURNING j.ref
