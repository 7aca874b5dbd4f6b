-- Begins the next attempt at the active run of a producer, inside a transaction that has found the head as expected.
-- Caller: take_up in src/sqlite/attempts.rs
-- ?1 key integer
-- ?2 run text: id of the run
-- ?3 fence integer
-- ?4 now integer: the time
-- ?5 tail integer: after the events of the commit
-- ?6 producer_seq integer
-- ?7 at integer: time of the newest events
-- ?8 attempt integer: number of the attempt
-- ?9 number integer: that of the attempt, as the head has it
-- ?10 attempt_id text
-- ?11 lease integer: in ms, or NULL for the present one
-- example: 1, 'r', 1, 0, 0, 0, 0, 2, -1, 'a', NULL

UPDATE heads
SET tail = ?5, producer_seq = ?6, at = ?7, driver_fence = ?9, lease_ms = coalesce(?11, lease_ms),
  lease_until = max(lease_until, ?4 + coalesce(?11, lease_ms))
WHERE key = ?1;
UPDATE runs SET attempt = ?8 WHERE key = ?1 AND fence = ?3;
UPDATE threads SET version = version + 1 WHERE key = ?1;
UPDATE turns SET driver_fence = ?9, attempt = ?8, attempt_id = ?10 WHERE key = ?1 AND run = ?2
