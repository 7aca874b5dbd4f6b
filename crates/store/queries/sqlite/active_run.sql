-- Reads a head and its active run.
-- Caller: close in src/sqlite/runs.rs
-- ?1 key integer
-- example: 1

SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
  , h.at
FROM heads h
-- <fragment with_active_run>
LEFT JOIN runs r ON r.key = h.key AND r.fence = h.fence AND h.run IS NOT NULL
-- </fragment>
WHERE h.key = ?1
