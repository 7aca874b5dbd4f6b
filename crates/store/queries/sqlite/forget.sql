-- Removes the rest of a feed, and the sum of the user's stored data. A purged tombstone remains only for the
-- feed, which owes it a position.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- example: 'p', 'u'

DELETE FROM feed_entries WHERE project = ?1 AND user = ?2;
DELETE FROM feed_heads WHERE project = ?1 AND user = ?2;
DELETE FROM threads WHERE project = ?1 AND user = ?2 AND version > fed_version AND deleted = 2;
UPDATE usage SET bytes = usage.bytes - own.bytes, threads = usage.threads - own.threads
FROM usage AS own
WHERE usage.project = ?1 AND usage.owner = '' AND own.project = ?1 AND own.owner = ?2;
DELETE FROM usage WHERE project = ?1 AND owner = ?2
