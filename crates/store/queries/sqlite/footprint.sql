-- Counts over live threads of a user after a position, in order of creation; then the position reached.
-- Caller: footprint in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- ?3 after_at integer: created_at of the position
-- ?4 after_id text: id of the position
-- ?5 limit integer
-- example: 'p', 'u', -9223372036854775808, '', 10

WITH own AS MATERIALIZED (
  SELECT key, created_at, id FROM threads
  WHERE project = ?1 AND user = ?2 AND deleted = 0 AND created_at >= ?3 AND (created_at > ?3 OR id > ?4)
  ORDER BY created_at, id LIMIT ?5
)
SELECT count(*), coalesce(sum((SELECT count(*) FROM runs r WHERE r.key = own.key)), 0), coalesce(sum(h.tail), 0),
  coalesce(sum((SELECT count(*) FROM snapshots s WHERE s.key = own.key)), 0),
  coalesce(sum((SELECT count(*) FROM annotations a WHERE a.key = own.key)), 0),
  (SELECT max(created_at) FROM own),
  (SELECT max(id) FROM own WHERE created_at = (SELECT max(created_at) FROM own))
FROM own
CROSS JOIN heads h ON h.key = own.key
