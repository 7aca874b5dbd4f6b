-- Reads the head, then rows of the log backwards, from the row that holds the event before the cursor. The first
-- column tells one from the other.
-- Caller: log_rows in src/postgres/log.rs
-- $1 key bigint
-- $2 cursor bigint: seq
-- $3 bytes bigint: rows are read in order until these are passed
-- $4 rows bigint: at most
-- $5 events bigint: wanted
-- example: 1, 3, 65536, 100, 50

SELECT 0::bigint,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  , NULL::bytea, NULL::bigint
FROM heads h
WHERE h.key = $1::bigint
UNION ALL
SELECT 1, p.first_seq, p.last_seq, p.at, p.fence, NULL, r.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  p.body, p.crc
FROM (
  SELECT w.*,
    sum(w.raw) OVER (ORDER BY w.first_seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.raw AS before
  FROM (
    SELECT l.first_seq, l.last_seq, l.at, l.fence, l.raw, l.body, l.crc
    FROM log l
    WHERE l.key = $1::bigint AND l.first_seq < $2::bigint
      AND l.first_seq >= coalesce((
        SELECT max(first_seq) FROM log
        WHERE key = $1 AND first_seq <= (SELECT least(tail + 1, $2) - $5::bigint FROM heads WHERE key = $1)
      ), 0)
    ORDER BY l.first_seq DESC LIMIT $4::bigint
  ) AS w
) AS p
LEFT JOIN runs r ON r.key = $1::bigint AND r.fence = p.fence
WHERE p.before < $3::bigint
