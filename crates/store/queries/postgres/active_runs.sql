-- Counts the active runs of a project, and those of a user. A scan of the active heads.
-- Caller: active_runs in src/postgres/runs.rs
-- $1 project text
-- $2 user text: or NULL
-- example: 'p', 'u'

SELECT count(*), count(*) FILTER (WHERE t.user_id = $2::text)
FROM heads h
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key OFFSET 0) AS t
WHERE h.active AND h.key > 0 AND t.project = $1::text
