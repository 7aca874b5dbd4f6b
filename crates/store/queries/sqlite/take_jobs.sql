-- Takes jobs of a kind that are due, the oldest first, and moves the time of each by the length of a claim.
-- Caller: take_jobs in src/sql/tables/jobs.rs
-- ?1 now integer: the time
-- ?2 kind text
-- ?3 claim integer: in ms
-- ?4 limit integer
-- example: 0, 'seal', 60000, 10

UPDATE jobs
SET due_at = ?1 + ?3, tries = tries + 1
WHERE kind = ?2
  AND ref IN (SELECT ref FROM jobs WHERE kind = ?2 AND due_at <= ?1 ORDER BY due_at LIMIT ?4)
RETURNING ref, tries, due_at
