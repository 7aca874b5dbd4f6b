-- Free threads whose queue moves: turns are queued, nothing holds them, and no interrupt is open.
-- Caller: moving_queues in src/sqlite/queue.rs
-- ?1 after integer: key
-- ?2 limit integer
-- example: 0, 10

SELECT t.key, t.project, t.user, t.id
FROM heads h
CROSS JOIN threads t ON t.key = h.key
WHERE h.key > ?1 AND h.queued > 0 AND h.held IS NULL AND h.key > 0 AND h.run IS NULL AND t.interrupts IS NULL
ORDER BY h.key LIMIT ?2
