-- Counts over live threads of a user after a position, in order of creation; then the position reached.
-- Caller: footprint in src/sql/tables/erasure.rs
-- $1 project text
-- $2 user text
-- $3 after_at bigint: created_at of the position
-- $4 after_id text: id of the position
-- $5 limit bigint
-- example: 'p', 'u', -9223372036854775808, '', 10

WITH own AS MATERIALIZED (
  SELECT key, created_at, id FROM threads
  WHERE project = $1 AND user_id = $2 AND deleted = 0 AND created_at >= $3::bigint
    AND (created_at > $3 OR id > $4::text)
  ORDER BY created_at, id LIMIT $5::bigint
)
SELECT count(*), coalesce(sum(r.n), 0)::bigint, coalesce(sum(h.tail), 0)::bigint, coalesce(sum(s.n), 0)::bigint,
  coalesce(sum(a.n), 0)::bigint, (SELECT created_at FROM own ORDER BY created_at DESC, id DESC LIMIT 1),
  (SELECT id FROM own ORDER BY created_at DESC, id DESC LIMIT 1)
FROM own
CROSS JOIN LATERAL (SELECT tail FROM heads WHERE heads.key = own.key OFFSET 0) AS h
CROSS JOIN LATERAL (SELECT count(*) AS n FROM runs WHERE runs.key = own.key) AS r
CROSS JOIN LATERAL (SELECT count(*) AS n FROM snapshots WHERE snapshots.key = own.key) AS s
CROSS JOIN LATERAL (SELECT count(*) AS n FROM annotations WHERE annotations.key = own.key) AS a
