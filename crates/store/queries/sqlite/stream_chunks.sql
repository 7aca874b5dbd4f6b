-- Reads the chunks of a plain stream that have data after a position, in order.
-- Caller: stream_chunks in src/sql/streams.rs
-- ?1 stream integer: key
-- ?2 after integer: position
-- ?3 limit integer
-- ?4 bytes integer: chunks are read in order until they reach these
-- example: 1, 0, 10, 1000

WITH page AS MATERIALIZED (
  SELECT w.last, sum(w.size) OVER (ORDER BY w.last ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT c.last, c.size FROM stream_chunks c WHERE c.stream = ?1 AND c.last > ?2 ORDER BY c.last LIMIT ?3
  ) AS w
)
SELECT c.first, c.last, c.body FROM page p
CROSS JOIN stream_chunks c ON c.stream = ?1 AND c.last = p.last
WHERE p.before < ?4
ORDER BY c.last
