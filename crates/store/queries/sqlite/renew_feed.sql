-- Moves a feed to new positions.
-- Caller: renew_feed in src/sqlite/transfer.rs
-- ?1 project text
-- ?2 user text
-- ?3 by integer: positions
-- example: 'p', 'u', 1000

UPDATE feed_entries SET pos = pos + ?3 WHERE project = ?1 AND user = ?2;
UPDATE feed_heads SET head = head + ?3 WHERE project = ?1 AND user = ?2
