-- Corrects the sum of a user, and that of the project, by what a count has found.
-- Caller: count_usage in src/sql/tables/usage.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 user text
-- ?4 bytes integer: to be added
-- ?5 threads integer: to be added
-- example: 0, 'p', 'u', 10, 1

INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT ?2, column1, ?4, ?5, ?1 FROM (VALUES (?3), ('')) WHERE TRUE
ON CONFLICT (project, owner)
DO UPDATE SET bytes = bytes + excluded.bytes, threads = threads + excluded.threads,
  checked_at = iif(owner = ?3, ?1, checked_at)
RETURNING owner
