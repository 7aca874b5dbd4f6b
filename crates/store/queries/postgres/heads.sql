-- Reads the heads of threads.
-- Caller: heads in src/postgres/log.rs
-- $1 keys bigint[]
-- example: '{1}'

SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
FROM unnest($1::bigint[]) AS v (key)
CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = v.key OFFSET 0) AS h
