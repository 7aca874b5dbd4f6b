-- Tells whether a thread of a user was deleted, and not created again.
-- Caller: was_deleted in src/sqlite/feed.rs
-- ?1 project text
-- ?2 user text
-- ?3 thread text: id of the thread
-- example: 'p', 'u', 't'

SELECT NOT EXISTS (SELECT 1 FROM threads WHERE project = ?1 AND id = ?3 AND user = ?2 AND deleted = 0)
  AND (
    EXISTS (SELECT 1 FROM feed_entries WHERE project = ?1 AND user = ?2 AND thread = ?3 AND key IS NULL)
      OR EXISTS (
        SELECT 1 FROM threads WHERE project = ?1 AND user = ?2 AND id = ?3 AND deleted > 0 AND version > fed_version
      )
  )
