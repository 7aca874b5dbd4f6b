-- Counts a page of the threads of a user, in whatever state: their number, the bytes of their events and agent data, and the
-- last key. The first
-- page also has the bytes of the user's key-value entries and plain streams.
-- Caller: count_usage in src/sql/tables/usage.rs
-- $1 project text
-- $2 user text
-- $3 after bigint: key after which the page begins
-- $4 limit bigint
-- example: 'p', 'u', 0, 100

WITH own AS MATERIALIZED (
  SELECT key FROM threads
  WHERE project = $1::text AND user_id = $2::text AND deleted <> 2 AND key > $3::bigint ORDER BY key LIMIT $4::bigint
)
SELECT count(*), (
    coalesce(sum(l.raw), 0) + CASE WHEN $3 > 0 THEN 0 ELSE (
      SELECT coalesce(sum(kv.size), 0) FROM kv WHERE kv.project = $1 AND kv.owner = $2
    ) + (
      SELECT coalesce(sum(s.size), 0) FROM streams s WHERE s.project = $1 AND s.owner = $2
    ) END
  )::bigint, coalesce(max(own.key), 0)
FROM own
CROSS JOIN LATERAL (
  SELECT coalesce((SELECT sum(raw) FROM log WHERE log.key = own.key), 0)
    + coalesce((SELECT d.bytes FROM agent_data d WHERE d.key = own.key), 0) AS raw
) AS l
