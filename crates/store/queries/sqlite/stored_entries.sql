-- Reads the entries of all feeds in order, each with whether its key is that of a thread, be it a deleted one.
-- Caller: stored_entries in src/sql/tables/verify.rs
-- ?1 project text: of the entry before
-- ?2 user text
-- ?3 pos integer
-- ?4 limit integer
-- example: '', '', 0, 10

SELECT e.project, e.user, e.pos, e.thread, e.key,
  CASE WHEN e.key IS NULL OR EXISTS (SELECT 1 FROM threads t WHERE t.key = e.key) THEN 1 ELSE 0 END
FROM feed_entries e
WHERE (e.project, e.user, e.pos) > (?1, ?2, ?3)
ORDER BY e.project, e.user, e.pos LIMIT ?4
