-- Reads the chunks of a plain stream that have data after a position, in order.
-- Caller: stream_chunks in src/sql/streams.rs
-- $1 stream bigint: key
-- $2 after bigint: position
-- $3 limit bigint
-- $4 bytes bigint: chunks are read in order until they reach these
-- example: 1, 0, 10, 1000

WITH page AS MATERIALIZED (
  SELECT w.last, sum(w.size) OVER (ORDER BY w.last ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT c.last, c.size FROM stream_chunks c WHERE c.stream = $1::bigint AND c.last > $2::bigint
    ORDER BY c.last LIMIT $3::bigint
  ) AS w
)
SELECT c.first, c.last, c.body FROM page p
JOIN stream_chunks c ON c.stream = $1 AND c.last = p.last
WHERE p.before < $4::bigint
ORDER BY c.last
