-- Reads a feed. The head of the feed is in every row, and in one without an entry if the feed has none.
-- Caller: feed_image in src/sql/tables/export.rs
-- ?1 project text
-- ?2 user text
-- example: 'p', 'u'

SELECT f.head, f.epoch, e.pos, e.thread FROM feed_heads f
LEFT JOIN feed_entries e ON e.project = f.project AND e.user = f.user
WHERE f.project = ?1 AND f.user = ?2
ORDER BY e.pos
