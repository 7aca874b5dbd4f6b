-- Reads a feed. Every row has the head of the feed; if there is no entry, one row has the head alone.
-- Caller: feed_image in src/sql/tables/export.rs
-- $1 project text
-- $2 user text
-- example: 'p', 'u'

SELECT f.head, f.epoch, e.pos, e.thread FROM feed_heads f
LEFT JOIN feed_entries e ON e.project = f.project AND e.user_id = f.user_id
WHERE f.project = $1 AND f.user_id = $2
ORDER BY e.pos
