-- Requests the stop of a run, and holds what is queued. The thread's row shows the request, so its version changes; a repetition changes
-- nothing. The reaper looks at the run once the stop is overdue.
-- Caller: request_stop in src/sqlite/runs.rs
-- ?1 now integer: the time
-- ?2 key integer
-- ?3 run text: id of the run
-- ?4 check_at integer: the time at which the stop is overdue
-- ?5 epoch integer: that the log must have, or NULL
-- ?6 holds integer: 1 if what is queued rests then
-- example: 0, 1, 'r', 10000, NULL, 1

UPDATE heads SET stop_at = ?1, queue = queue + (queued > 0),
  held = CASE WHEN ?6 AND queued > 0 THEN coalesce(held, 1) ELSE held END
WHERE key = ?2 AND run = ?3 AND stop_at IS NULL AND epoch = coalesce(?5, epoch);
UPDATE threads SET version = version + 1 WHERE key = ?2 AND changes() = 1;
UPDATE turns SET check_at = min(check_at, ?4) WHERE key = ?2 AND run = ?3 AND changes() = 1
