-- Removes the rest of a feed. A purged tombstone remains only for the feed, which owes it a position.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- example: 'p', 'u'

DELETE FROM feed_entries WHERE project = ?1 AND user = ?2;
DELETE FROM feed_heads WHERE project = ?1 AND user = ?2;
DELETE FROM threads WHERE project = ?1 AND user = ?2 AND version > fed_version AND deleted = 2
