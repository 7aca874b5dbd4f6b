-- Reads whether a thread is staged, and the last seq in its log.
-- Caller: publish in src/sqlite/staging.rs
-- ?1 key integer
-- example: 1

SELECT t.deleted = 3,
  coalesce(
    (SELECT max(last_seq) FROM log WHERE key = ?1 AND first_seq = (SELECT max(first_seq) FROM log WHERE key = ?1)), 0
  )
FROM threads t
WHERE t.key = ?1
