-- Finds threads that have agent data, for an export, which walks over all threads anyway.
-- Caller: listed_data in src/sql/items.rs
-- ?1 after integer: key
-- ?2 limit integer
-- example: 0, 10

SELECT t.key, t.project, t.user, t.id, t.claimed, h.epoch FROM heads h
CROSS JOIN threads t ON t.key = h.key
WHERE h.key > ?1 AND EXISTS (SELECT 1 FROM agent_data a WHERE a.key = h.key)
ORDER BY h.key LIMIT ?2
