-- Extends leases. A producer may request a shorter lease, after which the reaper looks at the run; without a request, a
-- lease is only extended.
-- Caller: heartbeat in src/sqlite/runs.rs
-- ?1 beats text: [[key, fence, lease in ms or null, epoch or null, fence of the driver or 0], …]
-- ?2 now integer: the time
-- example: '[[1,1,null,null,0]]', 0

UPDATE heads AS h
SET lease_ms = coalesce(v.lease, lease_ms),
  lease_until = CASE WHEN v.lease IS NULL THEN max(lease_until, ?2 + lease_ms) ELSE ?2 + v.lease END
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 2 AS lease, value ->> 3 AS e, value ->> 4 AS d
      FROM json_each(?1)) AS v
WHERE h.key = v.k AND h.fence = v.f AND h.driver_fence = v.d AND h.run IS NOT NULL AND h.epoch = coalesce(v.e, h.epoch)
RETURNING
  -- <fragment head_returned>
  key, epoch, tail, fence, driver_fence, run, producer_seq, lease_until, stop_at, finishing, generation, prior_epoch,
  prior_tail, queue, queued, held
  -- </fragment>
;
UPDATE turns AS t SET check_at = min(t.check_at, h.lease_until)
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 4 AS d FROM json_each(?1) WHERE value ->> 2 IS NOT NULL) AS v
CROSS JOIN heads h ON h.key = v.k AND h.fence = v.f AND h.driver_fence = v.d AND h.run IS NOT NULL
WHERE t.key = h.key AND t.run = h.run
