-- Lists one thread of a family and no other. Answers with the keys of the threads that changed.
-- Caller: list_branch in src/sql/tables/branches.rs
-- ?1 project text
-- ?2 user text
-- ?3 family integer
-- ?4 key integer: of the thread; NULL for the listed one, else the one used last
-- example: 'p', 'u', 1, NULL

UPDATE threads AS t SET listed = t.key = pick.key, version = t.version + 1
FROM (
  SELECT key FROM threads
  WHERE project = ?1 AND user = ?2 AND family = ?3 AND deleted = 0 AND (?4 IS NULL OR key = ?4)
  ORDER BY listed DESC, sort_at DESC, key DESC LIMIT 1
) AS pick
WHERE t.project = ?1 AND t.user = ?2 AND t.family = ?3 AND t.deleted = 0 AND t.listed <> (t.key = pick.key)
RETURNING key
