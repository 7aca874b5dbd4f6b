-- Begins a group commit and moves the heads. A run before queued turns does not end here. JSON and not VALUES, so that one prepared statement serves groups of
-- every size.
-- Caller: group in src/sqlite/append.rs
-- ?1 appends text: [[key, fence, producer_seq or null, events, epoch or null, fence of the driver or 0, 1 if its run ends], …]
-- ?2 now integer: the time
-- ?3 overdue integer: the time at or before which a stop request is overdue
-- example: '[[1,1,null,2,null,0,0]]', 0, 0

BEGIN IMMEDIATE;
UPDATE heads AS h
SET tail = tail + v.n, producer_seq = producer_seq + v.n, lease_until = max(lease_until, ?2 + lease_ms),
  -- <fragment log_time>
  at = CASE WHEN h.at > ?2 AND h.at <= ?2 + 3600000 THEN h.at ELSE ?2 END
  -- </fragment>
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 2 AS p, value ->> 3 AS n, value ->> 4 AS e, value ->> 5 AS d,
             value ->> 6 AS ends
      FROM jsonb_each(?1)) AS v
WHERE h.key = v.k AND h.fence = v.f AND h.driver_fence = v.d AND h.run IS NOT NULL
  AND h.producer_seq + 1 = coalesce(v.p, h.producer_seq + 1)
  AND coalesce(h.stop_at > ?3, TRUE) AND h.epoch = coalesce(v.e, h.epoch)
  AND NOT (v.ends AND h.queued > 0)
RETURNING
  -- <fragment head_returned>
  key, epoch, tail, fence, driver_fence, run, producer_seq, lease_until, stop_at, finishing, generation, prior_epoch,
  prior_tail, queue, queued, held
  -- </fragment>
  , at
