-- Reads annotations of a thread. One row without a number if it has none, no row if the thread is gone.
-- Caller: annotations in src/sql/tables/annotations.rs
-- ?1 key integer
-- ?2 after integer: number
-- ?3 limit integer
-- example: 1, 0, 10

SELECT a.number, a.id, a.kind, a.occurred_at, a.at, a.payload
FROM heads h
LEFT JOIN annotations a ON a.key = ?1 AND a.number > ?2
WHERE h.key = ?1
ORDER BY a.number LIMIT ?3
