-- Appends one batch that ends no run and fits into a row. The statement waits for a locked head.
-- Caller: commit_group in src/postgres/append.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 fence bigint
-- $4 producer_seq bigint: of the first event, or NULL
-- $5 n bigint: events
-- $6 grace bigint: STOP_GRACE in ms
-- $7 body bytea: the events as NDJSON
-- $8 crc bigint: CRC-32C of the body
-- $9 epoch bigint: that the log must have, or NULL
-- $10 driver_fence bigint: of the driver of the run, or the number of the attempt as the head has it
-- example: NULL, 1, 1, NULL, 2, 10000, '\x7b7d0a7b7d0a', 0, NULL, 0

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
    tail = h.tail + $5::bigint, producer_seq = h.producer_seq + $5::bigint,
    lease_until = greatest(h.lease_until, c.now + h.lease_ms)
  FROM c
  WHERE h.key = $2::bigint AND h.fence = $3::bigint AND h.driver_fence = $10::bigint AND h.active
    AND h.producer_seq + 1 = coalesce($4::bigint, h.producer_seq + 1)
    AND ($9::bigint IS NULL OR h.epoch = $9)
    AND (h.stop_at IS NULL OR h.stop_at > c.now - $6::bigint)
  RETURNING h.*, c.now
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT key, tail + 1 - $5, tail, fence, at, octet_length($7::bytea), $7, $8::bigint
  FROM up
)
SELECT
  -- <fragment appended_columns>
  h.key, h.at, h.epoch, h.tail, h.run, h.active, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail
  -- </fragment>
FROM up h
