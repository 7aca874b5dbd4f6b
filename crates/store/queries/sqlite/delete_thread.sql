-- Deletes a thread. The tombstone keeps the rows reachable for the purge and the feed. The head is removed at once:
-- no append, start, close or read finds the thread from then on. The deletion of a thread that was created with an
-- idempotency key is noted.
-- Caller: delete_thread in src/sqlite/threads.rs
-- ?1 key integer
-- ?2 epoch integer: that the log must have or have had before, or NULL
-- ?3 now integer: the time
-- example: 1, NULL, 0

UPDATE threads SET deleted = 1, version = version + 1 WHERE key = ?1 AND deleted = 0
  AND (?2 IS NULL OR EXISTS (SELECT 1 FROM heads WHERE key = ?1 AND ?2 IN (epoch, prior_epoch)));
INSERT INTO deleted_requests (project, thread, at)
SELECT project, id, ?3 FROM threads WHERE key = ?1 AND request IS NOT NULL AND changes() = 1
ON CONFLICT DO UPDATE SET at = excluded.at;
DELETE FROM turns WHERE key = ?1 AND EXISTS (SELECT 1 FROM threads WHERE key = ?1 AND deleted > 0);
INSERT INTO jobs (kind, ref, due_at)
SELECT 'purge', CAST(key AS TEXT), ?3 FROM heads
WHERE key = ?1 AND EXISTS (SELECT 1 FROM threads WHERE key = ?1 AND deleted > 0)
ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0;
DELETE FROM heads WHERE key = ?1 AND EXISTS (SELECT 1 FROM threads WHERE key = ?1 AND deleted > 0)
