-- Gives the active run another driver, inside a transaction that has found the head as expected. Answers whether the agent
-- was called.
-- Caller: take in src/sqlite/turns.rs
-- ?1 key integer
-- ?2 run text: id of the run
-- ?3 fence integer
-- ?4 now integer: the time
-- ?5 tail integer: after the events of the commit
-- ?6 producer_seq integer
-- ?7 at integer: time of the newest events
-- ?8 driver_fence integer: of the new driver
-- ?9 driver text: node that drives the attempt
-- ?10 futile integer: attempts in a row that were lost without an event that is kept
-- ?11 input text: that is kept from now on, sealed, or NULL
-- example: 1, 'r', 1, 0, 0, 0, 0, 2, '0123456789abcdef', 0, NULL

UPDATE heads
SET tail = ?5, producer_seq = ?6, at = ?7, driver_fence = ?8, lease_until = max(lease_until, ?4 + lease_ms)
WHERE key = ?1;
UPDATE runs SET attempt = (SELECT attempt + 1 FROM turns WHERE turns.key = ?1 AND turns.run = ?2) WHERE key = ?1 AND fence = ?3;
UPDATE threads SET version = version + 1 WHERE key = ?1;
UPDATE turns SET driver = ?9, driver_fence = ?8, attempt = attempt + 1, attempt_seq = ?5 + 1, futile = ?10,
  input = coalesce(?11, input)
WHERE key = ?1 AND run = ?2
RETURNING called
