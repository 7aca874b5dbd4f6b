-- Reads the queue of a thread: its head and open interrupts in each row, with the queued turns in their order. A row without a
-- turn if none is queued.
-- Caller: queue in src/sqlite/queue.rs
-- ?1 key integer
-- example: 1

SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  , t.interrupts, q.run, q.agent, q.asked_by, q.by_key, q.at, q.input
FROM heads h
CROSS JOIN threads t ON t.key = h.key
LEFT JOIN turns q ON q.key = h.key AND q.place IS NOT NULL
WHERE h.key = ?1
ORDER BY q.place
