-- Marks a run in its first attempt as finishing, and shortens its lease, after which the reaper looks at the run.
-- Caller: release in src/sqlite/runs.rs
-- ?1 key integer
-- ?2 fence integer
-- ?3 until integer: the longest lease
-- ?4 epoch integer: that the log must have, or NULL
-- example: 1, 1, 5000, NULL

UPDATE heads SET finishing = 1, lease_until = min(lease_until, ?3)
WHERE key = ?1 AND fence = ?2 AND driver_fence = -1000000 * (fence >> 32) AND run IS NOT NULL AND epoch = coalesce(?4, epoch);
UPDATE threads SET version = version + 1 WHERE key = ?1 AND changes() = 1;
UPDATE turns SET check_at = min(check_at, (SELECT lease_until FROM heads WHERE key = ?1))
WHERE key = ?1 AND place IS NULL AND changes() = 1
