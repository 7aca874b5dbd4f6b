-- Removes a chunk of a feed. Answers with a row for each entry removed.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- ?3 limit integer
-- example: 'p', 'u', 10

DELETE FROM feed_entries
WHERE project = ?1 AND user = ?2
  AND pos IN (SELECT pos FROM feed_entries WHERE project = ?1 AND user = ?2 ORDER BY pos LIMIT ?3)
RETURNING pos
