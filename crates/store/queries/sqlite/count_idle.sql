-- Counts idle threads of a project, up to a bound.
-- Caller: count_idle in src/sql/tables/holds.rs
-- ?1 project text
-- ?2 before integer: time
-- ?3 bound integer
-- example: 'p', 1000, 10

SELECT count(*) FROM (
  SELECT 1 FROM threads AS t
  WHERE t.project = ?1 AND t.deleted = 0 AND t.sort_at < ?2 AND coalesce(t.restored_at, t.sort_at) < ?2
    AND NOT EXISTS (SELECT 1 FROM heads WHERE heads.key = t.key AND heads.run IS NOT NULL)
    AND NOT EXISTS (
      SELECT 1 FROM threads AS o
      WHERE o.project = ?1 AND o.user = t.user AND o.family = t.family AND o.deleted = 0 AND o.sort_at >= ?2
    )
  LIMIT ?3
)
