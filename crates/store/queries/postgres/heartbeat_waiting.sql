-- Extends one lease, and waits for a locked head. A heartbeat may request a shorter lease; without a request, a lease
-- is only extended.
-- Caller: beat in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 keys bigint[]
-- $3 fences bigint[]
-- $4 leases bigint[]: in ms, or NULL for the present one
-- $5 epochs bigint[]: that each log must have, or NULL
-- $6 driver_fences bigint[]: of the driver of each run, or the number of the attempt as the head has it
-- example: NULL, '{1}', '{1}', '{NULL}', '{NULL}', '{0}'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, locked AS MATERIALIZED (
  SELECT v.*
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS v (key, fence, lease, epoch, driver)
  CROSS JOIN LATERAL (SELECT h.key FROM heads h WHERE h.key = v.key FOR NO KEY UPDATE) AS h
)
, up AS (
UPDATE heads AS h
SET
    -- <fragment generation>
    generation = c.generation,
    prior_epoch = CASE WHEN h.generation = c.generation THEN h.prior_epoch ELSE h.epoch END,
    prior_tail = CASE WHEN h.generation = c.generation THEN h.prior_tail ELSE h.tail END,
    epoch = CASE WHEN h.generation = c.generation THEN h.epoch ELSE h.epoch # c.nonce END,
    -- </fragment>
    -- <fragment extend_lease>
    lease_ms = coalesce(l.lease, h.lease_ms),
    lease_until = CASE WHEN l.lease IS NULL THEN greatest(h.lease_until, c.now + h.lease_ms) ELSE c.now + l.lease END
FROM locked l CROSS JOIN c
WHERE h.key = l.key AND h.fence = l.fence AND h.driver_fence = l.driver AND h.active
  AND (l.epoch IS NULL OR h.epoch = l.epoch)
    -- </fragment>
RETURNING h.*, l.lease
), sooner AS (
  UPDATE turns AS t SET check_at = least(t.check_at, up.lease_until)
  FROM up
  WHERE up.lease IS NOT NULL AND t.key = up.key AND t.run = up.run
)
SELECT
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
FROM up h
