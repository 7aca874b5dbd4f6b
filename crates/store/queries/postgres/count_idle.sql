-- Counts idle threads of a project, up to a bound.
-- Caller: count_idle in src/sql/tables/holds.rs
-- $1 project text
-- $2 before bigint: time
-- $3 bound bigint
-- example: 'p', 1000, 10

SELECT count(*) FROM (
  SELECT FROM threads AS t
  WHERE t.project = $1::text AND t.deleted = 0 AND t.sort_at < $2::bigint
    AND coalesce(t.restored_at, t.sort_at) < $2
    AND NOT EXISTS (SELECT FROM turns WHERE turns.key = t.key AND turns.place IS NULL)
    AND NOT EXISTS (
      SELECT FROM threads AS o
      WHERE o.project = $1 AND o.user_id = t.user_id AND o.family = t.family AND o.deleted = 0 AND o.sort_at >= $2
    )
  LIMIT $3::bigint
) AS idle
