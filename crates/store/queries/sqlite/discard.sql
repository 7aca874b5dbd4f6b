-- Makes a tombstone of a thread in the trash whose time has come, or of any: its rows can be purged from then on. Answers with a
-- row if it did.
-- Caller: discard in src/sql/tables/trash.rs
-- ?1 now integer: the time
-- ?2 key integer
-- ?3 early integer: 1 for a thread whose time has not come yet
-- example: 0, 1, 0

DELETE FROM heads
WHERE key = -?2 AND EXISTS (SELECT 1 FROM threads WHERE key = ?2 AND deleted > 3 AND (purge_at <= ?1 OR ?3 > 0));
DELETE FROM turns WHERE key = ?2 AND changes() > 0;
UPDATE threads SET deleted = 1 WHERE key = ?2 AND deleted > 3 AND (purge_at <= ?1 OR ?3 > 0)
RETURNING key
