-- Makes a tombstone of a thread in the trash whose time has come, or of any: its rows can be purged from then on. Answers with a
-- row if it did.
-- Caller: discard in src/sql/tables/trash.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 early bigint: 1 for a thread whose time has not come yet
-- example: NULL, 1, 0

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, due AS MATERIALIZED (
  SELECT t.key FROM threads t
  CROSS JOIN c
  WHERE t.key = $2::bigint AND t.deleted > 3 AND (t.purge_at <= c.now OR $3::bigint > 0)
), gone AS (
  DELETE FROM heads WHERE key = -$2 AND EXISTS (SELECT 1 FROM due) RETURNING key
), turns_gone AS (
  DELETE FROM turns AS t USING gone WHERE t.key = $2
)
UPDATE threads AS t SET deleted = 1 FROM gone WHERE t.key = $2 AND t.deleted > 3
RETURNING t.key
