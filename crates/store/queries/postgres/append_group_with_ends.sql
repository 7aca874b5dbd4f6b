-- Appends batches of any size, which may end their runs, unless turns are queued. Locked heads are left out. Each row of a body that is cut
-- scans all heads of the group: these bodies are large, so a commit has few of them.
-- Caller: commit_group in src/postgres/append.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 keys bigint[]
-- $3 fences bigint[]
-- $4 producer_seqs bigint[]: or NULL each
-- $5 counts bigint[]: events each
-- $6 grace bigint: STOP_GRACE in ms
-- $7 bodies bytea[]: NULL for those that are cut into rows
-- $8 statuses bigint[]: of the runs that end, or NULL
-- $9 stopped bigint[]: statuses if a stop was requested
-- $10 codes text[]
-- $11 messages text[]
-- $12 usages text[]
-- $13 cut_keys bigint[]: the thread of each row of a body that is cut
-- $14 cut_back bigint[]: events from the row's first to the batch's end
-- $15 cut_counts bigint[]: events of each row
-- $16 cut_bodies bytea[]
-- $17 crcs bigint[]: CRC-32C of each body, or NULL
-- $18 cut_crcs bigint[]
-- $19 epochs bigint[]: that each log must have, or NULL
-- $20 driver_fences bigint[]: of the driver of each run, or the number of the attempt as the head has it
-- $21 answers text[]: ids of the interrupts that each batch answers, a JSON array, or NULL
-- $22 requested text[]: interrupts that each run requests at its end, or NULL
-- example: NULL, '{1}', '{1}', '{NULL}', '{2}', 10000, '{NULL}', '{2}', '{4}', '{NULL}', '{NULL}', '{NULL}', '{1,1}', '{2,1}', '{1,1}', '{"\\x7b7d0a","\\x7b7d0a"}', '{NULL}', '{0,0}', '{NULL}', '{0}', '{NULL}', '{NULL}'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, locked AS MATERIALIZED (
  SELECT v.*
  FROM unnest(
    $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $7::bytea[], $8::bigint[], $9::bigint[], $10::text[],
    $11::text[], $12::text[], $17::bigint[], $19::bigint[], $20::bigint[], $21::text[], $22::text[]
  ) AS v (
    key, fence, pseq, n, body, status, stopped, code, message, usage, crc, epoch, driver, answers, requested
  )
  CROSS JOIN LATERAL (SELECT h.key FROM heads h WHERE h.key = v.key FOR NO KEY UPDATE SKIP LOCKED) AS h
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
    tail = h.tail + l.n, producer_seq = h.producer_seq + l.n,
    lease_until = greatest(h.lease_until, c.now + h.lease_ms), active = l.status IS NULL
  FROM locked l
  CROSS JOIN c
  WHERE h.key = l.key
    -- <fragment fits>
    AND h.fence = l.fence AND h.driver_fence = l.driver AND h.active
    AND h.producer_seq + 1 = coalesce(l.pseq, h.producer_seq + 1)
    AND (l.epoch IS NULL OR h.epoch = l.epoch)
    AND (h.stop_at IS NULL OR h.stop_at > c.now - $6::bigint)
    -- </fragment>
    AND (l.status IS NULL OR h.queued = 0)
  RETURNING h.*, c.now, l.n, l.body, l.status, l.stopped, l.code, l.message, l.usage, l.crc,
    l.answers, l.requested
),
-- <fragment put_group>
put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT key, tail + 1 - n, tail, fence, at, octet_length(body), body, crc FROM up WHERE body IS NOT NULL
  UNION ALL
  SELECT up.key, up.tail + 1 - p.back, up.tail - p.back + p.n, up.fence, up.at, octet_length(p.body), p.body, p.crc
  FROM unnest($13::bigint[], $14::bigint[], $15::bigint[], $16::bytea[], $18::bigint[]) AS p (key, back, n, body, crc)
  JOIN up ON up.key = p.key
)
-- </fragment>
, ended AS (
  UPDATE runs AS r
  SET status = CASE WHEN up.stop_at IS NULL THEN up.status ELSE up.stopped END, error_code = up.code,
    error_message = up.message, usage = up.usage, producer_seq = up.producer_seq, stop_at = up.stop_at,
    ended_at = up.now
  FROM up
  WHERE up.status IS NOT NULL AND r.key = up.key AND r.fence = up.fence
  RETURNING r.key, r.status, r.author
), touched AS (
  UPDATE threads AS t
  SET last_run_at = up.now, sort_at = up.now, version = t.version + 1,
    last_status = CASE WHEN up.stop_at IS NULL THEN up.status ELSE up.stopped END, last_error = up.code,
    interrupts = CASE
      WHEN t.interrupts IS NOT NULL OR up.requested IS NOT NULL THEN threadline_interrupts(
        t.interrupts, up.run, ended.author, up.answers, ended.status, up.requested, up.tail, up.at
      )
    END
  FROM up
  JOIN ended ON ended.key = up.key
  WHERE t.key = up.key
), answering AS (
  UPDATE threads AS t
  SET interrupts = threadline_interrupts(t.interrupts, up.run, NULL, up.answers, NULL, NULL, 0, 0)
  FROM up
  WHERE up.status IS NULL AND up.answers IS NOT NULL AND t.key = up.key AND t.interrupts IS NOT NULL
), gone AS (
  DELETE FROM turns AS t USING up WHERE up.status IS NOT NULL AND t.key = up.key AND t.run = up.run
), queued AS (
  INSERT INTO jobs (kind, ref, due_at)
  SELECT 'seal', up.key::text, up.now FROM up
  WHERE up.status IS NOT NULL AND up.tail / 256 > (up.tail - up.producer_seq) / 256
  ON CONFLICT DO NOTHING
)
SELECT
  -- <fragment appended_columns>
  h.key, h.at, h.epoch, h.tail, h.run, h.active, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail
  -- </fragment>
FROM up h
