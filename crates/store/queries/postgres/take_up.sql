-- Begins the next attempt at the active run of a producer: what supersedes the attempt before is appended in the same commit. No
-- row if the head is not as expected or has a driver, if a stop of the run was requested, or if the store has another generation, in which the
-- number of the attempt could be one that was lost.
-- Caller: take_up in src/postgres/attempts.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run text: id of the run
-- $4 fence bigint
-- $5 before bigint: number of the attempt before, as the head has it
-- $6 attempt bigint: number of the attempt
-- $7 number bigint: that of the attempt, as the head has it
-- $8 attempt_id text
-- $9 generation bigint: that the store must have
-- $10 tail bigint: the tail that the head must have
-- $11 lease bigint: in ms, or NULL for the present one
-- $12 n bigint: events, 0 if none
-- $13 back bigint[]: for each row of the log, events from its first to the end of the commit
-- $14 counts bigint[]: events of each row
-- $15 bodies bytea[]
-- $16 crcs bigint[]: CRC-32C of each body
-- $17 displaced text: ids of the attempts before, one a line, or NULL
-- example: NULL, 1, 'r', 1, 0, 2, -1, 'a', 1, 0, NULL, 0, '{}', '{}', '{}', '{}', NULL

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
    tail = h.tail + $12::bigint, producer_seq = h.producer_seq + $12, finishing = FALSE,
    driver_fence = $7::bigint, lease_ms = coalesce($11::bigint, h.lease_ms),
    lease_until = greatest(h.lease_until, c.now + coalesce($11, h.lease_ms))
  FROM c
  WHERE h.key = $2::bigint AND h.active AND h.run = $3::text AND h.fence = $4::bigint
    AND h.driver_fence = $5::bigint AND h.driver_fence <= 0 AND h.tail = $10::bigint AND h.stop_at IS NULL
    AND c.generation = $9::bigint
  RETURNING h.*, c.now
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, up.fence, up.at, octet_length(p.body), p.body, p.crc
  FROM up
  CROSS JOIN unnest($13::bigint[], $14::bigint[], $15::bytea[], $16::bigint[]) AS p (back, n, body, crc)
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2
), mine AS (
  UPDATE turns AS t
  SET driver_fence = up.driver_fence, attempt = $6::bigint, attempt_id = $8::text, displaced = $17::text
  FROM up
  WHERE t.key = $2 AND t.run = $3
), begun AS (
  UPDATE runs AS r SET attempt = $6 FROM up WHERE r.key = $2 AND r.fence = $4
  RETURNING r.*
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
CROSS JOIN begun r
