-- Reads annotations of a thread. One row without a number if it has none, no row if the thread is gone.
-- Caller: annotations in src/sql/tables/annotations.rs
-- $1 key bigint
-- $2 after bigint: number
-- $3 limit bigint
-- example: 1, 0, 10

SELECT a.number, a.id, a.kind, a.occurred_at, a.at, a.payload
FROM heads h
LEFT JOIN LATERAL (
  SELECT * FROM annotations
  WHERE annotations.key = h.key AND annotations.number > $2::bigint
  ORDER BY annotations.number LIMIT $3::bigint
) AS a ON TRUE
WHERE h.key = $1::bigint
ORDER BY a.number
