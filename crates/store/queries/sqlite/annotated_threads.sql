-- Finds threads that have annotations, for an export, which walks over all threads anyway.
-- Caller: annotated_threads in src/sql/tables/export.rs
-- ?1 after integer: key
-- ?2 limit integer
-- example: 0, 10

SELECT t.key, t.project, t.user, t.id, t.claimed, h.epoch FROM heads h
CROSS JOIN threads t ON t.key = h.key
WHERE h.key > ?1 AND EXISTS (SELECT 1 FROM annotations a WHERE a.key = h.key)
ORDER BY h.key LIMIT ?2
