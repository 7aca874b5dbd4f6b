-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once:
-- no append, start, close or read finds the thread from then on.
-- Caller: delete_thread in src/sqlite/threads.rs
-- ?1 key integer
-- example: 1

UPDATE threads SET deleted = 1, version = version + 1 WHERE key = ?1 AND deleted = 0;
DELETE FROM turns WHERE key = ?1;
DELETE FROM heads WHERE key = ?1
