-- Reads a head and the run of an id.
-- Caller: run in src/postgres/runs.rs
-- $1 key bigint
-- $2 run text: id of the run
-- example: 1, 'r'

SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
FROM heads h
LEFT JOIN runs r ON r.key = h.key AND r.id = $2
WHERE h.key = $1
