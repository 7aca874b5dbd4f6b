-- Measures the jobs of a kind: the time for which the oldest has been due, and the number of parked ones. 10 is JOB_TRIES.
-- Caller: job_levels in src/sql/tables/jobs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kind text
-- $3 limit bigint: number up to which parked jobs are counted
-- example: NULL, 'seal', 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT greatest(c.now - (SELECT due_at FROM jobs WHERE kind = $2::text ORDER BY due_at LIMIT 1), 0),
  (SELECT count(*) FROM (SELECT FROM jobs WHERE kind = $2 AND tries >= 10 LIMIT $3::bigint) AS parked)
FROM c
