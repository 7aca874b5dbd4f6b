-- Reads whether a thread has an active run, its tail, and the time since its last run began or ended.
-- Caller: idle_since in src/sqlite/seal.rs
-- ?1 now integer: the time
-- ?2 key integer
-- example: 0, 1

SELECT h.run IS NOT NULL, h.tail, ?1 - coalesce(t.last_run_at, t.created_at)
FROM heads AS h
CROSS JOIN threads AS t ON t.key = h.key
WHERE h.key = ?2
