-- Changes the queue of a thread: turns leave, one comes or is edited, and those that stay get their places. No row if the head has
-- another version of the queue, or if the id of the new turn is that of a run. A run that begins during the statement changes the fence.
-- Caller: change_queue in src/postgres/queue.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 version bigint: of the queue as it was seen
-- $4 fence bigint: of the newest run, if a turn comes, else NULL
-- $5 queued bigint: turns from now on
-- $6 held bigint: why the queue rests, or NULL
-- $7 staying text[]: the runs that stay
-- $8 places bigint[]: their places
-- $9 gone text[]: the runs that leave
-- $10 new text: run that comes, or NULL
-- $11 place bigint: of the new turn
-- $12 agent text
-- $13 asked_by text
-- $14 by_key text
-- $15 at bigint
-- $16 input text: of the new or the edited turn, sealed
-- $17 edited text: run that is edited, or NULL
-- example: NULL, 1, 0, 1, 1, NULL, '{}', '{}', '{}', 'r', 1, 'a', 'user:u', NULL, 0, '{}', NULL

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
    queue = h.queue + 1, queued = $5::bigint, held = $6::bigint
  FROM c
  WHERE h.key = $2::bigint AND h.queue = $3::bigint AND ($4::bigint IS NULL OR h.fence = $4)
    AND NOT EXISTS (SELECT 1 FROM runs WHERE key = $2 AND id = $10::text)
  RETURNING h.*
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2
  RETURNING t.project, t.user_id
), left_queue AS (
  DELETE FROM turns AS t USING up WHERE t.key = $2 AND t.place IS NOT NULL AND t.run = ANY ($9::text[])
), came AS (
  INSERT INTO turns (key, run, project, user_id, agent, at, place, driven, attempt, asked_by, by_key, input)
  SELECT up.key, $10, t.project, t.user_id, $12::text, $15::bigint, $11::bigint, TRUE, 0, $13::text, $14::text, $16::text
  FROM up
  CROSS JOIN touched t
  WHERE $10 IS NOT NULL
), placed AS (
  UPDATE turns AS t SET place = o.place, input = CASE WHEN t.run = $17::text THEN $16 ELSE t.input END
  FROM up
  CROSS JOIN unnest($7::text[], $8::bigint[]) AS o (run, place)
  WHERE t.key = $2 AND t.place IS NOT NULL AND t.run = o.run
)
SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
FROM up h
