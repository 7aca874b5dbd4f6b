-- Appends batches of different threads that end no run and fit into a row each. Heads are locked one after the other
-- in the order given, which is that of their keys. Heads that are locked, or were last written in another generation,
-- are left out: append_one.sql takes them.
-- Caller: commit_group in src/postgres/append.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 keys bigint[]
-- $3 fences bigint[]
-- $4 producer_seqs bigint[]: or NULL each
-- $5 counts bigint[]: events each
-- $6 grace bigint: STOP_GRACE in ms
-- $7 bodies bytea[]: NDJSON each
-- $8 crcs bigint[]: CRC-32C of each body
-- $9 epochs bigint[]: that each log must have, or NULL
-- $10 driver_fences bigint[]: of the driver of each run, or the number of the attempt as the head has it
-- example: NULL, '{1}', '{1}', '{NULL}', '{2}', 10000, '{"\\x7b7d0a7b7d0a"}', '{0}', '{NULL}', '{0}'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, locked AS MATERIALIZED (
  SELECT v.*, h.place
  FROM unnest(
    $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[]
  ) AS v (key, fence, pseq, n, body, crc, epoch, driver)
  CROSS JOIN LATERAL (
    SELECT h.ctid AS place FROM heads h WHERE h.key = v.key FOR NO KEY UPDATE SKIP LOCKED
  ) AS h
), up AS (
  UPDATE heads AS h
  SET
    -- <fragment log_time>
    at = CASE WHEN h.at > c.now AND h.at <= c.now + 3600000 THEN h.at ELSE c.now END,
    -- </fragment>
    tail = h.tail + l.n, producer_seq = h.producer_seq + l.n,
    lease_until = greatest(h.lease_until, c.now + h.lease_ms)
  FROM locked l
  CROSS JOIN c
  WHERE h.ctid = l.place AND h.generation = c.generation
    -- <fragment fits>
    AND h.fence = l.fence AND h.driver_fence = l.driver AND h.active
    AND h.producer_seq + 1 = coalesce(l.pseq, h.producer_seq + 1)
    AND (l.epoch IS NULL OR h.epoch = l.epoch)
    AND (h.stop_at IS NULL OR h.stop_at > c.now - $6::bigint)
    -- </fragment>
  RETURNING h.*, c.now, l.n, l.body, l.crc
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT key, tail + 1 - n, tail, fence, at, octet_length(body), body, crc
  FROM up
)
SELECT
  -- <fragment appended_columns>
  h.key, h.at, h.epoch, h.tail, h.run, h.active, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail
  -- </fragment>
FROM up h
