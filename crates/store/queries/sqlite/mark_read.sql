-- Moves the read marker of a thread. Changes no row if the marker does not move, or the thread is gone.
-- Caller: mark_read in src/sqlite/threads.rs
-- ?1 key integer
-- ?2 seq integer
-- ?3 epoch integer: that the log must have, or NULL
-- example: 1, 1, NULL

UPDATE threads
SET read_seq = ?2, version = version + 1
WHERE key = ?1 AND deleted = 0 AND read_seq < ?2
  AND ?2 <= (SELECT tail FROM heads WHERE key = ?1 AND epoch = coalesce(?3, epoch))
