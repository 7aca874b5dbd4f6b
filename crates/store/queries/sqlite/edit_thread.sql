-- Changes a thread that has the given version.
-- Caller: edit_thread in src/sqlite/threads.rs
-- ?1 key integer
-- ?2 version integer: the version that the thread must have
-- ?3 renamed integer: whether name and source change
-- ?4 name text: or NULL
-- ?5 name_source integer
-- ?6 metadata text: or NULL to keep it
-- ?7 archived integer: or NULL to keep it
-- ?8 now integer: the time
-- ?9 epoch integer: that the log must have or have had before, or NULL
-- example: 1, 1, 1, 'A name', 1, NULL, NULL, 0, NULL

UPDATE threads
SET name = CASE WHEN ?3 THEN ?4 ELSE name END, name_source = CASE WHEN ?3 THEN ?5 ELSE name_source END,
  metadata = coalesce(?6, metadata), archived = coalesce(?7, archived), updated_at = ?8,
  sort_at = coalesce(last_run_at, ?8), version = version + 1
WHERE key = ?1 AND version = ?2 AND deleted = 0
  AND (?9 IS NULL OR EXISTS (SELECT 1 FROM heads WHERE key = ?1 AND ?9 IN (epoch, prior_epoch)))
