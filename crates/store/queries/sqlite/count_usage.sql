-- Counts a page of the threads of a user, in whatever state: their number, the bytes of their events and agent data, and the
-- last key. The first
-- page also has the bytes of the user's key-value entries and plain streams.
-- Caller: count_usage in src/sql/tables/usage.rs
-- ?1 project text
-- ?2 user text
-- ?3 after integer: key after which the page begins
-- ?4 limit integer
-- example: 'p', 'u', 0, 100

WITH own AS MATERIALIZED (
  SELECT key FROM threads WHERE project = ?1 AND user = ?2 AND deleted <> 2 AND key > ?3 ORDER BY key LIMIT ?4
)
SELECT count(*), coalesce(sum(
    coalesce((SELECT sum(raw) FROM log WHERE log.key = own.key), 0)
      + coalesce((SELECT bytes FROM agent_data WHERE agent_data.key = own.key), 0)
  ), 0) + CASE WHEN ?3 > 0 THEN 0 ELSE (
    SELECT coalesce(sum(kv.size), 0) FROM kv WHERE kv.project = ?1 AND kv.owner = ?2
  ) + (
    SELECT coalesce(sum(s.size), 0) FROM streams s WHERE s.project = ?1 AND s.owner = ?2
  ) END, coalesce(max(key), 0)
FROM own
