-- Reads the time until a job is due, in ms: 0 if it is.
-- Caller: job_due in src/sql/tables/jobs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kind text
-- $3 ref text
-- example: NULL, 'clock-step', ''

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT greatest(j.due_at - c.now, 0) FROM jobs AS j CROSS JOIN c WHERE j.kind = $2::text AND j.ref = $3::text
