-- Closes a run: appends its last events, and ends it. No row if the head is not as expected, or turns are queued.
-- Caller: close_run in src/postgres/start.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 fence bigint
-- $4 tail bigint: the tail that the head must have
-- $5 if_due boolean: only if its lease or its stop has expired
-- $6 grace bigint: STOP_GRACE in ms
-- $7 n bigint: events
-- $8 status bigint
-- $9 code text
-- $10 message text
-- $11 back bigint[]: for each row of the log, events from its first to the end of the commit
-- $12 counts bigint[]: events of each row
-- $13 bodies bytea[]
-- $14 crcs bigint[]: CRC-32C of each body
-- $15 epoch bigint: that the log must have, or NULL
-- $16 bound bigint: the latest time by which $5 is judged
-- $17 driver_fence bigint: of the driver of the run, or the number of the attempt as the head has it
-- example: NULL, 1, 1, 0, FALSE, 10000, 0, 3, NULL, NULL, '{}', '{}', '{}', '{}', NULL, 0, 0

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, up AS (
  UPDATE heads AS h
  SET
    -- <fragment generation>
    generation = c.generation,
    prior_epoch = CASE WHEN h.generation = c.generation THEN h.prior_epoch ELSE h.epoch END,
    prior_tail = CASE WHEN h.generation = c.generation THEN h.prior_tail ELSE h.tail END,
    epoch = CASE WHEN h.generation = c.generation THEN h.epoch ELSE h.epoch # c.nonce END,
    -- </fragment>
    -- <fragment log_time>
    at = CASE WHEN h.at > c.now AND h.at <= c.now + 3600000 THEN h.at ELSE c.now END,
    -- </fragment>
    tail = h.tail + $7::bigint, producer_seq = h.producer_seq + $7, active = FALSE
  FROM c
  WHERE h.key = $2::bigint AND h.active AND h.fence = $3::bigint AND h.driver_fence = $17::bigint AND h.tail = $4::bigint
    AND h.queued = 0
    AND ($15::bigint IS NULL OR h.epoch = $15)
    AND (NOT $5::boolean OR least(h.lease_until, h.stop_at + $6::bigint) <= least(c.now, $16::bigint))
  RETURNING h.*, c.now
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, up.fence, up.at, octet_length(p.body), p.body, p.crc
  FROM up
  CROSS JOIN unnest($11::bigint[], $12::bigint[], $13::bytea[], $14::bigint[]) AS p (back, n, body, crc)
), ended AS (
  UPDATE runs AS r
  SET status = $8::bigint, error_code = $9::text, error_message = $10::text, producer_seq = up.producer_seq,
    stop_at = up.stop_at, ended_at = up.now
  FROM up
  WHERE r.key = $2 AND r.fence = $3
  RETURNING r.*
), touched AS (
  UPDATE threads AS t
  SET last_run_at = up.now, sort_at = up.now, version = t.version + 1, last_status = $8, last_error = $9,
    interrupts = CASE
      WHEN t.interrupts IS NOT NULL THEN threadline_interrupts(t.interrupts, up.run, NULL, NULL, $8, NULL, 0, 0)
    END
  FROM up
  WHERE t.key = $2
), gone AS (
  DELETE FROM turns AS t USING up WHERE t.key = $2 AND t.run = up.run
), queued AS (
  INSERT INTO jobs (kind, ref, due_at)
  SELECT 'seal', up.key::text, up.now FROM up
  WHERE up.tail / 256 > (up.tail - up.producer_seq) / 256
  ON CONFLICT DO NOTHING
)
SELECT h.at,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
FROM up h
CROSS JOIN ended r
