-- Ends the active run before queued turns, or begins the next turn in a free thread, or both. No row if the head is not as
-- expected. The run that begins has no driver and no event: a node claims its turn.
-- Caller: advance in src/postgres/queue.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 version bigint: of the queue as it was seen
-- $4 fence bigint: of the run that ends, or NULL if no run is active
-- $5 driver_fence bigint: of its driver, or the number of its attempt as the head has it
-- $6 tail bigint: the tail that the head must have
-- $7 if_due boolean: only if its lease or its stop has expired
-- $8 grace bigint: STOP_GRACE in ms
-- $9 n bigint: events
-- $10 status bigint: that the run gets
-- $11 code text
-- $12 message text
-- $13 usage text
-- $14 back bigint[]: for each row of the log, events from its first to the end of the commit
-- $15 counts bigint[]: events of each row
-- $16 bodies bytea[]
-- $17 crcs bigint[]: CRC-32C of each body
-- $18 epoch bigint: that the log must have, or NULL
-- $19 bound bigint: the latest time by which $7 is judged
-- $20 answers text: ids of the interrupts that the events answer, a JSON array, or NULL
-- $21 requested text: interrupts that the run requests at its end, or NULL
-- $22 gone text[]: the turns that leave without a run
-- $23 next text: the turn that begins, or NULL
-- $24 lease bigint: of the run that begins, in ms
-- $25 new_version bigint: of the queue from now on
-- $26 queued bigint: turns from now on
-- $27 held bigint: why the queue rests, or NULL
-- $28 look bigint: PACK_FIRST_LOOK in ms
-- example: NULL, 1, 1, 1, 0, 0, FALSE, 10000, 0, 2, NULL, NULL, NULL, '{}', '{}', '{}', '{}', NULL, 0, NULL, NULL, '{}', 'r', 30000, 2, 0, NULL, 660000

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, was AS MATERIALIZED (
  SELECT h.key, h.run, h.producer_seq, h.stop_at FROM heads h WHERE h.key = $2::bigint FOR NO KEY UPDATE
), up AS (
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
    tail = h.tail + $9::bigint, queue = $25::bigint, queued = $26::bigint, held = $27::bigint,
    active = $23::text IS NOT NULL, run = coalesce($23, h.run),
    fence = CASE WHEN $23 IS NULL THEN h.fence ELSE greatest(h.fence, (c.generation - 1) << 32) + 1 END,
    driver_fence = CASE WHEN $23 IS NULL THEN h.driver_fence ELSE ((c.generation - 1) << 32) + 1 END,
    producer_seq = CASE WHEN $23 IS NULL THEN h.producer_seq + $9 ELSE 0 END,
    lease_ms = CASE WHEN $23 IS NULL THEN h.lease_ms ELSE $24::bigint END,
    lease_until = CASE WHEN $23 IS NULL THEN h.lease_until ELSE c.now + $24 END,
    stop_at = CASE WHEN $23 IS NULL THEN h.stop_at END, finishing = h.finishing AND $23 IS NULL
  FROM was
  CROSS JOIN c
  WHERE h.key = $2 AND h.queue = $3::bigint
    AND ($23::text IS NULL OR EXISTS (SELECT 1 FROM turns q WHERE q.key = $2 AND q.run = $23 AND q.place IS NOT NULL))
    AND CASE WHEN $4::bigint IS NULL THEN NOT h.active
        ELSE h.active AND h.fence = $4 AND h.driver_fence = $5::bigint AND h.tail = $6::bigint
          AND ($18::bigint IS NULL OR h.epoch = $18)
          AND (NOT $7::boolean OR least(h.lease_until, h.stop_at + $8::bigint) <= least(c.now, $19::bigint)) END
  RETURNING h.*, c.now, was.run AS ended_run, was.producer_seq AS ended_at_seq, was.stop_at AS ended_stop
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, $4, up.at, octet_length(p.body), p.body, p.crc
  FROM up
  CROSS JOIN unnest($14::bigint[], $15::bigint[], $16::bytea[], $17::bigint[]) AS p (back, n, body, crc)
), ended AS (
  UPDATE runs AS r
  SET status = $10::bigint, error_code = $11::text, error_message = $12::text, usage = $13::text,
    producer_seq = up.ended_at_seq + $9, stop_at = up.ended_stop, ended_at = up.now
  FROM up
  WHERE r.key = $2 AND r.fence = $4
  RETURNING r.*
), mine AS (
  UPDATE turns AS t
  SET place = NULL, at = up.now, check_at = up.lease_until, driver = NULL, driver_fence = up.driver_fence, attempt = 0,
    attempt_seq = up.tail + 1
  FROM up
  WHERE t.key = $2 AND t.run = $23
  RETURNING t.agent, t.asked_by
), begun AS (
  INSERT INTO runs AS b (key, fence, id, agent, status, first_seq, producer_seq, started_at, driven, author, asked_by)
  SELECT up.key, up.fence, $23, mine.agent, 0, up.tail + 1, 0, up.now, TRUE, 'agent:' || mine.agent, mine.asked_by
  FROM up
  CROSS JOIN mine
  RETURNING b.*
), touched AS (
  UPDATE threads AS t
  SET agent = coalesce(t.agent, mine.agent), last_run_at = up.now, sort_at = up.now, last_run = coalesce($23, t.last_run),
    last_status = CASE WHEN $23 IS NULL THEN $10 ELSE 0 END, last_error = CASE WHEN $23 IS NULL THEN $11 END,
    version = t.version + ($4 IS NOT NULL)::int + ($23 IS NOT NULL)::int,
    interrupts = CASE
      WHEN $4 IS NOT NULL AND (t.interrupts IS NOT NULL OR $21::text IS NOT NULL)
      THEN threadline_interrupts(t.interrupts, up.ended_run, ended.author, $20::text, $10, $21, up.tail, up.at)
      ELSE t.interrupts
    END
  FROM up
  LEFT JOIN ended ON TRUE
  LEFT JOIN mine ON TRUE
  WHERE t.key = $2
), turns_gone AS (
  DELETE FROM turns AS t USING up
  WHERE t.key = $2
    AND CASE WHEN t.place IS NULL THEN $4 IS NOT NULL AND t.run = up.ended_run ELSE t.run = ANY ($22::text[]) END
), queued AS (
  INSERT INTO jobs (kind, ref, due_at)
  SELECT 'pack', up.key::text, up.now + $28::bigint FROM up WHERE $23 IS NOT NULL
  UNION ALL
  SELECT 'seal', up.key::text, up.now FROM up
  WHERE $4 IS NOT NULL AND up.tail / 256 > (up.tail - up.ended_at_seq - $9) / 256
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
  , b.fence, b.id, b.agent, b.status, b.error_code, b.error_message, b.usage, b.first_seq, b.producer_seq,
    b.started_at, b.ended_at, b.stop_at, b.driven, b.author, b.asked_by, b.attempt
FROM up h
LEFT JOIN ended r ON TRUE
LEFT JOIN begun b ON TRUE
