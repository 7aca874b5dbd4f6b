-- Counts the feed entries, the tombstones and the threads in the trash of a user, and the user's key-value entries and plain streams. `deleted > 0 AND deleted <> 4` is the
-- condition of the partial index: it holds all threads that are to be purged, and those being imported.
-- Caller: footprint in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- example: 'p', 'u'

SELECT (SELECT count(*) FROM feed_entries WHERE project = ?1 AND user = ?2),
  (SELECT count(*) FROM threads WHERE deleted > 0 AND deleted <> 4 AND deleted < 3 AND project = ?1 AND user = ?2)
    + (SELECT count(*) FROM threads WHERE deleted = 4 AND project = ?1 AND user = ?2),
  (SELECT count(*) FROM kv WHERE project = ?1 AND owner = ?2),
  (SELECT count(*) FROM streams WHERE project = ?1 AND owner = ?2)
