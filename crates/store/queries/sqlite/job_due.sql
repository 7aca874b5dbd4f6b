-- Reads the time until a job is due, in ms: 0 if it is.
-- Caller: job_due in src/sql/tables/jobs.rs
-- ?1 now integer: the time
-- ?2 kind text
-- ?3 ref text
-- example: 0, 'clock-step', ''

SELECT max(due_at - ?1, 0) FROM jobs WHERE kind = ?2 AND ref = ?3
