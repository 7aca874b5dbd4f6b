-- Corrects the sum of a project by its difference to the sums of the users.
-- Caller: count_usage in src/sql/tables/usage.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 bytes integer: to be added
-- ?4 threads integer: to be added
-- example: 0, 'p', 0, 0

UPDATE usage SET bytes = bytes + ?3, threads = threads + ?4, checked_at = ?1 WHERE project = ?2 AND owner = ''
RETURNING owner
