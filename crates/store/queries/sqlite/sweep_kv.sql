-- Removes key-value entries that have expired, and removals that are no longer remembered. Answers with the owner and the bytes of each.
-- Caller: sweep_kv in src/sql/kv.rs
-- ?1 now integer: the time
-- ?2 limit integer
-- example: 0, 10

DELETE FROM kv WHERE rowid IN (SELECT rowid FROM kv 
  WHERE expires_at IS NOT NULL AND coalesce(removed_until, expires_at) <= ?1
  ORDER BY coalesce(removed_until, expires_at) LIMIT ?2
)
RETURNING project, owner, size
