-- Reads the heads of threads.
-- Caller: heads in src/sqlite/log.rs
-- ?1 keys text: [key, …]
-- example: '[1]'

SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
FROM json_each(?1) AS v
CROSS JOIN heads h ON h.key = v.value
