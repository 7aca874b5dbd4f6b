-- Measures the jobs of a kind: the time for which the oldest has been due, and the number of parked ones. 10 is JOB_TRIES.
-- Caller: job_levels in src/sql/tables/jobs.rs
-- ?1 now integer: the time
-- ?2 kind text
-- ?3 limit integer: number up to which parked jobs are counted
-- example: 0, 'seal', 10

SELECT max(?1 - (SELECT due_at FROM jobs WHERE kind = ?2 ORDER BY due_at LIMIT 1), 0),
  (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE kind = ?2 AND tries >= 10 LIMIT ?3))
