-- Reads the newest position of a feed, and whether it has dirty threads.
-- Caller: pump_feed in src/postgres/feed.rs
-- $1 project text
-- $2 user text
-- example: 'p', 'u'

SELECT coalesce((SELECT head FROM feed_heads WHERE project = $1 AND user_id = $2), 0),
  EXISTS (SELECT 1 FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version)
