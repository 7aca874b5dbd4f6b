-- Reads the head of a feed, and whether it has dirty threads.
-- Caller: pump_feed in src/postgres/feed.rs
-- $1 project text
-- $2 user text
-- example: 'p', 'u'

SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
  , EXISTS (SELECT 1 FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version)
FROM (SELECT 1) AS one
LEFT JOIN feed_heads f ON f.project = $1 AND f.user_id = $2
