-- Requests the stop of a run. The thread's row shows the request, so its version changes; a repetition changes
-- nothing.
-- Caller: request_stop in src/sqlite/runs.rs
-- ?1 now integer: the time
-- ?2 key integer
-- ?3 run text: id of the run
-- example: 0, 1, 'r'

UPDATE heads SET stop_at = ?1 WHERE key = ?2 AND run = ?3 AND stop_at IS NULL;
UPDATE threads SET version = version + 1 WHERE key = ?2 AND changes() = 1
