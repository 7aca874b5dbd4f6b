-- Takes jobs of a kind that are due, the oldest first, and moves the time of each by the length of a claim. The statement
-- waits for no lock.
-- Caller: take_jobs in src/sql/tables/jobs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kind text
-- $3 claim bigint: in ms
-- $4 limit bigint
-- example: NULL, 'seal', 60000, 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, due AS MATERIALIZED (
  SELECT kind, ref FROM jobs
  WHERE kind = $2::text AND due_at <= (SELECT now FROM c)
  ORDER BY due_at LIMIT $4::bigint FOR UPDATE SKIP LOCKED
)
UPDATE jobs AS j
SET due_at = c.now + $3::bigint, tries = j.tries + 1
FROM due
CROSS JOIN c
WHERE j.kind = due.kind AND j.ref = due.ref
RETURNING j.ref, j.tries, j.due_at
