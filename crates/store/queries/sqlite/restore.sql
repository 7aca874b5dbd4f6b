-- Restores the thread of a user and an id that was put in the trash last, unless the id is taken: by a thread of the user, or,
-- if the restored one has claimed it, by another claimed one. Answers with 1 if the thread of this id is one that was restored,
-- now or before; with 2 if another thread has the id; with 0 if the trash has no such thread.
-- Each statement has all parameters from the first to its last, or the driver binds none. `IN (?1, restored_at)`: not NULL.
-- Caller: restore in src/sql/tables/trash.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 thread text: id of the thread
-- ?4 user text
-- ?5 actor text: of the entry in the audit
-- ?6 action text
-- ?7 facts text
-- example: 0, 'p', 't', 'u', 'operator', 'thread.restored', '{}'

UPDATE threads SET deleted = 0, trashed_at = NULL, purge_at = NULL, restored_at = ?1, version = version + 1
WHERE key = (
    SELECT key FROM threads WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 4 ORDER BY trashed_at DESC, id LIMIT 1
  )
  AND NOT EXISTS (SELECT 1 FROM threads WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 0)
  AND NOT (
    claimed = 1 AND EXISTS (SELECT 1 FROM threads WHERE project = ?2 AND id = ?3 AND deleted = 0 AND claimed = 1)
  );
INSERT INTO audit (project, at, actor, action, facts)
SELECT ?2, ?1, ?5, ?6, ?7 WHERE changes() > 0 AND ?3 IS NOT NULL AND ?4 IS NOT NULL;
UPDATE heads SET key = -key
WHERE key = (
    SELECT -key FROM threads WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 0 AND restored_at = ?1
  );
DELETE FROM jobs
WHERE kind = 'purge'
  AND ref = (
    SELECT CAST(key AS TEXT) FROM threads
    WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 0 AND restored_at = ?1
  );
DELETE FROM deleted_requests
WHERE project = ?2 AND thread = ?3
  AND EXISTS (
    SELECT 1 FROM threads WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 0 AND restored_at = ?1
  );
SELECT CASE
  WHEN EXISTS (
    SELECT 1 FROM threads
    WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 0 AND restored_at IN (?1, restored_at)
  ) THEN 1
  WHEN EXISTS (SELECT 1 FROM threads WHERE project = ?2 AND id = ?3 AND user = ?4 AND deleted = 4) THEN 2 ELSE 0 END
