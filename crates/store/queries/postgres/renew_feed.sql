-- Moves a feed to new positions.
-- Caller: renew_feed in src/postgres/transfer.rs
-- $1 project text
-- $2 user text
-- $3 by bigint: positions
-- example: 'p', 'u', 1000

WITH head AS (
  UPDATE feed_heads SET head = head + $3 WHERE project = $1 AND user_id = $2
)
UPDATE feed_entries
SET pos = pos + $3
WHERE project = $1 AND user_id = $2
