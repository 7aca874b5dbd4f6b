-- Adds rows of a thread to the sums of its user and its project, or subtracts them.
-- Caller: charge in src/sqlite/threads.rs
-- ?1 key integer
-- ?2 bytes integer
-- ?3 threads integer
-- example: 1, 10, 0

INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT project, owner, ?2, ?3, 0 FROM (
  SELECT project, user AS owner FROM threads WHERE key = ?1
  UNION ALL
  SELECT project, '' FROM threads WHERE key = ?1
)
WHERE TRUE
ON CONFLICT (project, owner) DO UPDATE SET bytes = bytes + excluded.bytes, threads = threads + excluded.threads
