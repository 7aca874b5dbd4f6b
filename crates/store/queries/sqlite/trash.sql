-- Puts threads in the trash that are still idle: without an active run, and last used before a time, as all branches of their family. The same transaction turns
-- the key of the head negative, so that a start, an append or a read that knows the key finds nothing. Answers with the keys
-- of the threads. Each statement has all parameters from the first to its last, or the driver binds none.
-- Caller: trash in src/sql/tables/trash.rs
-- ?1 now integer: the time
-- ?2 keys text: [key, …]
-- ?3 project text
-- ?4 before integer: time
-- ?5 grace integer: in ms
-- example: 0, '[1]', 'p', 1000, 60000

UPDATE threads SET deleted = 4, trashed_at = ?1, purge_at = ?1 + ?5, version = version + 1
WHERE key IN (SELECT value FROM json_each(?2)) AND +project = ?3 AND deleted < 1 AND +sort_at < ?4
  AND coalesce(restored_at, sort_at) < ?4
  AND EXISTS (SELECT 1 FROM heads WHERE heads.key = threads.key AND heads.run IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM threads AS o
    WHERE o.project = ?3 AND o.user = threads.user AND o.family = threads.family AND o.deleted = 0 AND o.sort_at >= ?4
  )
RETURNING key;
INSERT INTO deleted_requests (project, thread, at)
SELECT t.project, t.id, ?1 FROM json_each(?2) AS v
CROSS JOIN heads h ON h.key = v.value
CROSS JOIN threads t ON t.key = h.key
WHERE t.deleted > 3 AND t.trashed_at = ?1 AND t.request IS NOT NULL
ON CONFLICT DO UPDATE SET at = excluded.at;
INSERT INTO jobs (kind, ref, due_at)
SELECT 'purge', CAST(t.key AS TEXT), t.purge_at FROM json_each(?2) AS v
CROSS JOIN heads h ON h.key = v.value
CROSS JOIN threads t ON t.key = h.key
WHERE t.deleted > 3 AND t.trashed_at = ?1
ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0;
UPDATE heads SET key = -key
WHERE key IN (SELECT value FROM json_each(?2))
  AND EXISTS (SELECT 1 FROM threads WHERE threads.key = heads.key AND threads.deleted > 3 AND threads.trashed_at = ?1)
