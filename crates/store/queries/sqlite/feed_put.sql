-- Puts entries into a feed. REPLACE removes the older entry of the same thread.
-- Caller: pump in src/sqlite/feed.rs
-- ?1 project text
-- ?2 user text
-- ?3 entries text: [[position, thread id, key or null], …]
-- example: 'p', 'u', '[[1,"t",1]]'

INSERT OR REPLACE INTO feed_entries (project, user, pos, thread, key)
SELECT ?1, ?2, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?3)
