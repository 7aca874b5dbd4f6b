-- Counts the active runs of a project, and those of a user. A scan of the active heads.
-- Caller: active_runs in src/sqlite/runs.rs
-- ?1 project text
-- ?2 user text: or NULL
-- example: 'p', 'u'

SELECT count(*), coalesce(sum(t.user = ?2), 0) FROM heads h
CROSS JOIN threads t ON t.key = h.key
WHERE h.run IS NOT NULL AND t.project = ?1
