-- Starts a run if the thread is free, or if the active run is closed in the same statement. No row if the head is not
-- as expected, or if the id is taken.
-- Caller: try_start in src/postgres/start.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run text: id of the run
-- $4 agent text
-- $5 lease bigint: in ms
-- $6 n bigint: own events, 0 if none
-- $7 status bigint: of a run that is appended complete, else NULL
-- $8 code text
-- $9 message text
-- $10 usage text
-- $11 closing_fence bigint: of the run to close, or NULL
-- $12 closing_tail bigint: the tail that its head must have
-- $13 closing_n bigint: events that close it
-- $14 closing_status bigint
-- $15 closing_code text
-- $16 closing_message text
-- $17 back bigint[]: for each row of the log, events from its first to the end of the commit
-- $18 counts bigint[]: events of each row
-- $19 bodies bytea[]
-- $20 older bigint[]: 1 for the rows of the closed run, else 0
-- $21 at bigint: the tail that the head must have, or NULL
-- $22 driver text: node that drives the run, or NULL
-- $23 crcs bigint[]: CRC-32C of each body
-- $24 epoch bigint: that the log must have, or NULL
-- $25 bound bigint: the latest time by which the lease of the closed run is judged
-- $26 look bigint: PACK_FIRST_LOOK in ms
-- $27 author text
-- $28 asked_by text
-- $29 closing_driver bigint: fence of the driver of the run to close, or NULL
-- $30 input text: that the agent of the run is called with, sealed, or NULL
-- $31 answers text: ids of the interrupts that the run answers, a JSON array, or NULL
-- $32 requested text: interrupts that a run which is appended complete requests, or NULL
-- $33 past_queue boolean: whether it may begin though turns are queued and nothing holds them
-- $34 attempt_id text: of the first attempt at a run of a producer, or NULL
-- example: NULL, 1, 'r', NULL, 30000, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, '{}', '{}', '{}', '{}', NULL, '0123456789abcdef', '{}', NULL, 0, 660000, 'agent:a', 'user:u', NULL, '{}', NULL, NULL, FALSE, NULL

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
    tail = h.tail + $6::bigint + $13::bigint, fence = greatest(h.fence, (c.generation - 1) << 32) + 1,
    -- The number of the first attempt at a run of a producer, by the generation that its fence has.
    driver_fence = CASE
      WHEN $22::text IS NOT NULL THEN ((c.generation - 1) << 32) + 1
      ELSE -1000000 * ((greatest(h.fence, (c.generation - 1) << 32) + 1) >> 32)
    END,
    active = $7::bigint IS NULL, run = $3::text,
    producer_seq = $6, lease_ms = $5::bigint, lease_until = c.now + $5, stop_at = NULL, finishing = FALSE
  FROM c
  WHERE h.key = $2::bigint
    AND CASE WHEN $11::bigint IS NULL THEN NOT h.active
        ELSE h.active AND h.fence = $11 AND h.driver_fence = $29::bigint AND h.tail = $12::bigint
          AND (h.finishing OR h.lease_until <= least(c.now, $25::bigint)) END
    AND ($21::bigint IS NULL OR h.tail = $21) AND ($24::bigint IS NULL OR h.epoch = $24)
    AND ($33::boolean OR h.queued = 0 OR h.held IS NOT NULL)
    AND (h.queued = 0 OR NOT EXISTS (SELECT 1 FROM turns q WHERE q.key = h.key AND q.run = $3 AND q.place IS NOT NULL))
    AND NOT EXISTS (SELECT 1 FROM runs WHERE key = $2 AND id = $3)
  RETURNING h.*, c.now
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, CASE WHEN p.older = 1 THEN $11 ELSE up.fence END,
    up.at, octet_length(p.body), p.body, p.crc
  FROM up
  CROSS JOIN unnest(
    $17::bigint[], $18::bigint[], $19::bytea[], $20::bigint[], $23::bigint[]
  ) AS p (back, n, body, older, crc)
), begun AS (
  INSERT INTO runs AS r (
    key, fence, id, agent, status, error_code, error_message, usage, first_seq, producer_seq, started_at, ended_at,
    driven, author, asked_by, attempt
  )
  SELECT up.key, up.fence, up.run, $4::text, coalesce($7, 0), $8::text, $9::text, $10::text, up.tail + 1 - $6,
    CASE WHEN up.active THEN 0 ELSE $6 END, up.now, CASE WHEN up.active THEN NULL ELSE up.now END, nullif($22 IS NOT NULL, FALSE),
    $27::text, $28::text, CASE WHEN $22 IS NULL THEN nullif(1 - up.driver_fence, 1) END
  FROM up
  RETURNING r.*
), closed AS (
  UPDATE runs AS r
  SET status = $14::bigint, error_code = $15::text, error_message = $16::text,
    producer_seq = $12 + $13 + 1 - r.first_seq, ended_at = up.now
  FROM up
  WHERE r.key = $2 AND r.fence = $11
  RETURNING r.id
), touched AS (
  UPDATE threads AS t
  SET agent = coalesce(t.agent, $4), last_run_at = up.now, sort_at = up.now, last_status = coalesce($7, 0),
    last_run = up.run, last_error = $8,
    version = t.version + 1 + ($7 IS NOT NULL)::int + ($11 IS NOT NULL)::int,
    interrupts = CASE
      WHEN t.interrupts IS NOT NULL OR $32::text IS NOT NULL THEN threadline_interrupts(
        CASE
          WHEN $11 IS NULL THEN t.interrupts
          ELSE threadline_interrupts(t.interrupts, closed.id, NULL, NULL, $14, NULL, 0, 0)
        END,
        up.run, $27, $31::text, $7, $32, up.tail, up.at
      )
    END
  FROM up
  LEFT JOIN closed ON TRUE
  WHERE t.key = $2
  RETURNING t.key, t.project, t.user_id
), turned AS (
  INSERT INTO turns (
    key, run, project, user_id, agent, at, check_at, driven, driver, driver_fence, attempt, attempt_seq,
    attempt_id, input
  )
  SELECT up.key, up.run, t.project, t.user_id, $4, up.now, up.lease_until, $22 IS NOT NULL, $22, up.driver_fence,
    CASE WHEN $22 IS NULL THEN 1 - up.driver_fence ELSE 1 END, up.tail + 1, $34::text, $30::text
  FROM up
  CROSS JOIN touched t
  WHERE up.active
), gone AS (
  DELETE FROM turns AS t USING closed WHERE t.key = $2 AND t.run = closed.id
), queued AS (
  INSERT INTO jobs (kind, ref, due_at)
  SELECT 'pack', up.key::text, up.now + $26::bigint FROM up
  UNION ALL
  SELECT 'seal', up.key::text, up.now FROM up
  WHERE $11 IS NOT NULL OR ($7 IS NOT NULL AND up.tail / 256 > (up.tail - $6) / 256)
  ON CONFLICT DO NOTHING
)
SELECT (SELECT id FROM closed), h.at,
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
