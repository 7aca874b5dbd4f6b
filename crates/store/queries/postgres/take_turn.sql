-- Gives the active run another driver, and begins its next attempt: what supersedes the attempt before is appended in the
-- same commit. No row if the head is not as expected, or a stop of the run was requested.
-- Caller: take_turn in src/postgres/turns.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run text: id of the run
-- $4 fence bigint
-- $5 driver_fence bigint: of the driver before
-- $6 tail bigint: the tail that the head must have
-- $7 n bigint: events, 0 if none
-- $8 back bigint[]: for each row of the log, events from its first to the end of the commit
-- $9 counts bigint[]: events of each row
-- $10 bodies bytea[]
-- $11 crcs bigint[]: CRC-32C of each body
-- $12 driver text: node that drives the attempt
-- $13 futile bigint: attempts in a row that were lost without an event that is kept
-- $14 input text: that is kept from now on, sealed, or NULL
-- example: NULL, 1, 'r', 1, 1, 0, 0, '{}', '{}', '{}', '{}', '0123456789abcdef', 0, NULL

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
    tail = h.tail + $7::bigint, producer_seq = h.producer_seq + $7,
    driver_fence = greatest(h.driver_fence, (c.generation - 1) << 32) + 1,
    lease_until = greatest(h.lease_until, c.now + h.lease_ms)
  FROM c
  WHERE h.key = $2::bigint AND h.active AND h.run = $3::text AND h.fence = $4::bigint
    AND h.driver_fence = $5::bigint AND h.tail = $6::bigint AND h.stop_at IS NULL
  RETURNING h.*, c.now
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, up.fence, up.at, octet_length(p.body), p.body, p.crc
  FROM up
  CROSS JOIN unnest($8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[]) AS p (back, n, body, crc)
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2
), mine AS (
  UPDATE turns AS t
  SET driver = $12::text, driver_fence = up.driver_fence, attempt = t.attempt + 1, attempt_seq = up.tail + 1,
    futile = $13::bigint, input = coalesce($14::text, t.input)
  FROM up
  WHERE t.key = $2 AND t.run = $3
  RETURNING t.called, t.attempt
), begun AS (
  UPDATE runs AS r SET attempt = mine.attempt FROM up CROSS JOIN mine WHERE r.key = $2 AND r.fence = $4
  RETURNING r.*
)
SELECT mine.called, h.at,
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
CROSS JOIN begun r
CROSS JOIN mine
