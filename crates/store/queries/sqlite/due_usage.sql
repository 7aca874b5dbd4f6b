-- Finds sums that were last counted long ago, the longest ago first.
-- Caller: due_usage in src/sql/tables/usage.rs
-- ?1 now integer: the time
-- ?2 age integer: in ms
-- ?3 limit integer
-- example: 0, 86400000, 10

SELECT project, owner FROM usage WHERE checked_at <= ?1 - ?2 ORDER BY checked_at LIMIT ?3
