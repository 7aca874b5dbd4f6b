-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once:
-- no append, start, close or read finds the thread from then on.
-- Caller: delete_thread in src/sqlite/threads.rs
-- ?1 key integer
-- ?2 now integer: the time
-- example: 1, 0

UPDATE threads SET deleted = 1, version = version + 1 WHERE key = ?1 AND deleted = 0;
DELETE FROM turns WHERE key = ?1;
INSERT INTO jobs (kind, ref, due_at) SELECT 'purge', CAST(key AS TEXT), ?2 FROM heads WHERE key = ?1
ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0;
DELETE FROM heads WHERE key = ?1
