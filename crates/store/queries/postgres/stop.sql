-- Requests the stop of a run, and holds what is queued: each stop of a run before queued turns changes the version of the queue, so that
-- no end that was decided before begins the next one. The reaper looks at the run once the stop is overdue. The thread's row shows the stop, so its version changes; a repetition changes nothing.
-- A run that began a moment ago and is not visible yet is left to the next attempt.
-- Caller: request_stop in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run text: id of the run
-- $4 grace bigint: STOP_GRACE in ms
-- $5 epoch bigint: that the log must have, or NULL
-- $6 holds boolean: whether what is queued rests then
-- example: NULL, 1, 'r', 10000, NULL, TRUE

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
    stop_at = c.now, queue = h.queue + (h.queued > 0)::int,
    held = CASE WHEN $6::boolean AND h.queued > 0 THEN coalesce(h.held, 1) ELSE h.held END
  FROM c
  WHERE h.key = $2::bigint AND h.run = $3::text AND h.active AND h.stop_at IS NULL
    AND ($5::bigint IS NULL OR h.epoch = $5) AND EXISTS (SELECT 1 FROM runs WHERE key = $2 AND id = $3)
  RETURNING h.key, h.fence, h.stop_at, h.run
), noted AS (
  UPDATE runs AS r SET stop_at = up.stop_at FROM up WHERE r.key = $2 AND r.fence = up.fence
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2
), sooner AS (
  UPDATE turns AS t SET check_at = least(t.check_at, up.stop_at + $4::bigint) FROM up WHERE t.key = $2 AND t.run = up.run
)
SELECT key FROM up
