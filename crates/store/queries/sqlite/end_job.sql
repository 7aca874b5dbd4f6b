-- Removes a job whose claim is still the caller's. With a tail, only if the thread is at that tail and has no active run.
-- Caller: end_job in src/sql/tables/jobs.rs
-- ?1 kind text
-- ?2 ref text
-- ?3 until integer: end of the claim
-- ?4 key integer
-- ?5 tail integer: or NULL
-- example: 'pack', '1', 60000, 1, 0

DELETE FROM jobs
WHERE kind = ?1 AND ref = ?2 AND due_at = ?3
  AND (?5 IS NULL OR EXISTS (SELECT 1 FROM heads WHERE key = ?4 AND tail = ?5 AND run IS NULL))
RETURNING ref
