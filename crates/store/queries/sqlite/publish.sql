-- Makes a staged thread visible: it gets its head, a turn if a run is active, and in its row the state of its newest run.
-- Caller: publish in src/sqlite/transfer.rs
-- ?1 key integer
-- ?2 epoch integer
-- ?3 tail integer: of the log
-- ?4 fence integer
-- ?5 run text: of the active run, or NULL
-- ?6 producer_seq integer: of the active run
-- ?7 lease_until integer: at most now
-- ?8 stop_at integer: time of its stop request
-- ?9 finishing integer
-- ?10 agent text: of the active run
-- ?11 now integer: the time
-- example: 1, 7, 1, 1, NULL, 0, 0, NULL, 0, NULL, 0

UPDATE threads
SET deleted = 0, sort_at = coalesce(last_run_at, updated_at), fed_version = -version,
  (last_status, last_run, last_error) = (
    SELECT status, id, error_code FROM runs WHERE key = ?1 ORDER BY fence DESC LIMIT 1
  )
WHERE key = ?1;
INSERT INTO heads (
  -- <fragment head_returned>
  key, epoch, tail, fence, driver_fence, run, producer_seq, lease_until, stop_at, finishing, generation, prior_epoch,
  prior_tail
  -- </fragment>
  )
VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, (SELECT max(generation) FROM lineage), NULL, NULL);
INSERT INTO turns (key, run, project, user, agent, at, check_at)
SELECT key, ?5, project, user, ?10, ?11, ?7 FROM threads WHERE key = ?1 AND ?5 IS NOT NULL
