-- Begins the next attempt at the active run of a producer, inside a transaction that has found the head as expected.
-- Caller: take_up in src/sqlite/attempts.rs
-- ?1 key integer
-- ?2 run text: id of the run
-- ?3 fence integer
-- ?4 attempt integer: number of the attempt
-- ?5 number integer: that of the attempt, as the head has it
-- ?6 attempt_id text
-- ?7 now integer: the time
-- ?8 tail integer: after the events of the commit
-- ?9 producer_seq integer
-- ?10 at integer: time of the newest events
-- ?11 lease integer: in ms, or NULL for the present one
-- ?12 displaced text: ids of the attempts before, one a line, or NULL
-- example: 1, 'r', 1, 2, -1, 'a', 0, 0, 0, 0, NULL, NULL

UPDATE heads
SET tail = ?8, producer_seq = ?9, finishing = 0, at = ?10, driver_fence = ?5, lease_ms = coalesce(?11, lease_ms),
  lease_until = max(lease_until, ?7 + coalesce(?11, lease_ms))
WHERE key = ?1;
UPDATE runs SET attempt = ?4 WHERE key = ?1 AND fence = ?3;
UPDATE threads SET version = version + 1 WHERE key = ?1;
UPDATE turns SET driver_fence = ?5, attempt = ?4, attempt_id = ?6, displaced = ?12 WHERE key = ?1 AND run = ?2
