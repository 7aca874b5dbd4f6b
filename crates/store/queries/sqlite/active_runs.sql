-- Counts the active runs of a project, and those of a user. Each count ends at its bound, so that the statement visits no
-- more rows, however many runs are active.
-- Caller: active_runs in src/sqlite/runs.rs
-- ?1 project text
-- ?2 user text: or NULL
-- ?3 project_bound integer
-- ?4 user_bound integer
-- example: 'p', 'u', 10, 10

SELECT (SELECT count(*) FROM (SELECT 1 FROM turns WHERE place IS NULL AND project = ?1 LIMIT ?3) AS page),
  (SELECT count(*) FROM (SELECT 1 FROM turns WHERE place IS NULL AND project = ?1 AND user = ?2 LIMIT ?4) AS page)
