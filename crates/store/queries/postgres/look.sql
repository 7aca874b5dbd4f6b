-- Reads a head, the run of an id, the active run, and whether a queued turn has the id.
-- Caller: look in src/postgres/start.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run text: id of the run
-- example: NULL, 1, 'r'

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT c.now,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
  , a.fence, a.id, a.agent, a.status, a.error_code, a.error_message, a.usage, a.first_seq, a.producer_seq,
    a.started_at, a.ended_at, a.stop_at, a.driven, a.author, a.asked_by, a.attempt,
    h.queued > 0 AND EXISTS (SELECT 1 FROM turns q WHERE q.key = h.key AND q.run = $3 AND q.place IS NOT NULL)
FROM c
CROSS JOIN heads h
LEFT JOIN runs r ON r.key = h.key AND r.id = $3::text
LEFT JOIN runs a ON a.key = h.key AND a.fence = h.fence AND h.active
WHERE h.key = $2::bigint
