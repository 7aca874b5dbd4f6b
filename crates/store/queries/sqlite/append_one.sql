-- Appends one batch that ends no run and fits into a row, in one trip to the database. The head is changed only if it
-- is as the producer expects, and the log gets a row only if the head was changed.
-- Caller: one in src/sqlite/append.rs
-- ?1 n integer: events
-- ?2 now integer: the time
-- ?3 key integer
-- ?4 fence integer
-- ?5 producer_seq integer: of the first event, or NULL
-- ?6 overdue integer: the time at or before which a stop request is overdue
-- ?7 raw integer: bytes of the body
-- ?8 body blob: the events as NDJSON
-- ?9 crc integer: CRC-32C of the body
-- ?10 epoch integer: that the log must have, or NULL
-- ?11 driver_fence integer: of the driver of the run, or the number of the attempt as the head has it
-- example: 2, 0, 1, 1, NULL, 0, 6, x'7b7d0a7b7d0a', 0, NULL, 0

BEGIN IMMEDIATE;
UPDATE heads AS h
SET tail = tail + ?1, producer_seq = producer_seq + ?1, lease_until = max(lease_until, ?2 + lease_ms),
  -- <fragment log_time>
  at = CASE WHEN h.at > ?2 AND h.at <= ?2 + 3600000 THEN h.at ELSE ?2 END
  -- </fragment>
WHERE key = ?3 AND fence = ?4 AND driver_fence = ?11 AND run IS NOT NULL
  AND producer_seq + 1 = coalesce(?5, producer_seq + 1)
  AND coalesce(stop_at > ?6, TRUE) AND epoch = coalesce(?10, epoch)
RETURNING
  -- <fragment head_returned>
  key, epoch, tail, fence, driver_fence, run, producer_seq, lease_until, stop_at, finishing, generation, prior_epoch,
  prior_tail, queue, queued, held
  -- </fragment>
  , at
;
INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT key, tail + 1 - ?1, tail, fence, at, ?7, ?8, ?9 FROM heads
WHERE key = ?3 AND changes() = 1;
COMMIT
