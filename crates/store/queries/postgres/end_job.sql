-- Removes a job whose claim is still the caller's. With a tail, only if the thread is at that tail and has no active run:
-- a start puts a job unless there is one, so the head is locked until the removal is committed. The statement waits for no
-- lock of a head.
-- Caller: end_job in src/sql/tables/jobs.rs
-- $1 kind text
-- $2 ref text
-- $3 until bigint: end of the claim
-- $4 key bigint
-- $5 tail bigint: or NULL
-- example: 'pack', '1', 60000, 1, 0

WITH quiet AS MATERIALIZED (
  SELECT key FROM heads WHERE key = $4::bigint AND tail = $5::bigint AND NOT active FOR NO KEY UPDATE SKIP LOCKED
)
DELETE FROM jobs
WHERE kind = $1::text AND ref = $2::text AND due_at = $3::bigint AND ($5 IS NULL OR EXISTS (SELECT 1 FROM quiet))
RETURNING ref
