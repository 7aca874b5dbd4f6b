-- Takes turns out of the queue of a thread, inside a transaction that has found the head as it was seen: those that are dropped,
-- and the one that begins.
-- Caller: advance in src/sqlite/queue.rs
-- ?1 key integer
-- ?2 version integer: of the queue from now on
-- ?3 queued integer: turns from now on
-- ?4 held integer: why the queue rests, or NULL
-- ?5 gone text: JSON array of the runs that leave
-- example: 1, 2, 0, NULL, '["r"]'

UPDATE heads SET queue = ?2, queued = ?3, held = ?4 WHERE key = ?1;
DELETE FROM turns WHERE key = ?1 AND place IS NOT NULL AND run IN (SELECT value FROM json_each(?5))
