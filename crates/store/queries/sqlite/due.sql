-- Finds runs whose lease has expired, or whose stop is overdue. A scan of the active heads.
-- Caller: due in src/sqlite/runs.rs
-- ?1 now integer: the time
-- ?2 overdue integer: the time at or before which a stop request is overdue
-- ?3 limit integer
-- example: 0, 0, 10

SELECT t.key, t.project, t.user, t.id FROM heads h
CROSS JOIN threads t ON t.key = h.key
WHERE h.run IS NOT NULL AND (h.lease_until <= ?1 OR h.stop_at <= ?2)
LIMIT ?3
