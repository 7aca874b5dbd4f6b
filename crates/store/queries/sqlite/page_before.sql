-- Reads the head, then rows of the log backwards, from the row that holds the event before the cursor. The first
-- column tells a head from a row. Columns of rows are in the positions of the head's, with the body and its checksum last.
-- Caller: log_rows in src/sqlite/log.rs
-- ?1 key integer
-- ?2 cursor integer: seq
-- ?3 bytes integer: rows are read in order until these are passed
-- ?4 rows integer: at most
-- ?5 events integer: wanted
-- example: 1, 3, 65536, 100, 50

WITH RECURSIVE page (row, first_seq, last_seq, bytes, rows, stop) AS (
  SELECT rowid, first_seq, last_seq, raw, 1, min(last_seq + 1, ?2) - ?5
  FROM log
  WHERE key = ?1 AND first_seq = (SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq < ?2)
  UNION ALL
  SELECT l.rowid, l.first_seq, l.last_seq, page.bytes + l.raw, page.rows + 1, page.stop
  FROM page
  CROSS JOIN log l ON l.key = ?1 AND l.first_seq = (
    SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq < page.first_seq
  )
  WHERE page.bytes < ?3 AND page.rows < ?4 AND page.first_seq > page.stop
)
SELECT 0,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  , NULL, NULL
FROM heads h
WHERE h.key = ?1
UNION ALL
-- <fragment rows_of_page>
SELECT 1, l.first_seq, l.last_seq, l.at, l.fence, NULL, r.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  l.body, l.crc
FROM page CROSS JOIN log l ON l.rowid = page.row LEFT JOIN runs r ON r.key = ?1 AND r.fence = l.fence
-- </fragment>
