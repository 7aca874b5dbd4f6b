-- Counts the feed entries, the tombstones and the threads in the trash of a user, and the user's key-value entries and plain streams. Tombstones with rows left are searched
-- among all of these tombstones; purged ones, among the threads that the feed searches.
-- Caller: footprint in src/sql/tables/erasure.rs
-- $1 project text
-- $2 user text
-- example: 'p', 'u'

SELECT (SELECT count(*) FROM feed_entries WHERE project = $1 AND user_id = $2),
  (SELECT count(*) FROM threads WHERE deleted = 1 AND project = $1 AND user_id = $2)
    + (SELECT count(*) FROM threads WHERE deleted = 4 AND project = $1 AND user_id = $2) + (
    SELECT count(*) FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version AND deleted = 2
  ),
  (SELECT count(*) FROM kv WHERE project = $1 AND owner = $2),
  (SELECT count(*) FROM streams WHERE project = $1 AND owner = $2)
