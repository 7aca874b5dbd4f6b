-- Moves all leases by the time by which the clock was set, so that each has as long to go as before.
-- Caller: follow in src/sqlite/leases.rs
-- ?1 ms integer: positive if the clock was set forward
-- example: 1000

UPDATE heads SET lease_until = lease_until + ?1, stop_at = stop_at + ?1
WHERE run IS NOT NULL AND key IN (SELECT key FROM turns WHERE place IS NULL);
UPDATE turns SET check_at = check_at + ?1 WHERE place IS NULL
