-- Counts the active runs of a project, and those of a user. Each count ends at its bound, so that the statement visits no
-- more rows, however many runs are active.
-- Caller: active_runs in src/postgres/runs.rs
-- $1 project text
-- $2 user text: or NULL
-- $3 project_bound bigint
-- $4 user_bound bigint
-- example: 'p', 'u', 10, 10

SELECT
  (SELECT count(*) FROM (SELECT FROM turns WHERE place IS NULL AND project = $1::text LIMIT $3::bigint) AS t),
  (
    SELECT count(*)
    FROM (SELECT FROM turns WHERE place IS NULL AND project = $1 AND user_id = $2::text LIMIT $4::bigint) AS t
  )
