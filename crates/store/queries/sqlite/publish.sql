-- Makes a staged thread visible: it gets its head, a turn if a run is active, and in its row the state of its newest run.
-- Caller: publish in src/sqlite/staging.rs
-- ?1 key integer
-- ?2 interrupts text: that are open, or NULL
-- ?3 epoch integer
-- ?4 tail integer: of the log
-- ?5 fence integer
-- ?6 run text: of the active run, or NULL
-- ?7 producer_seq integer: of the active run
-- ?8 lease_until integer: at most now
-- ?9 stop_at integer: time of its stop request
-- ?10 finishing integer
-- ?11 agent text: of the active run
-- ?12 now integer: the time
-- example: 1, NULL, 7, 1, 1, NULL, 0, 0, NULL, 0, NULL, 0

UPDATE threads
SET deleted = 0, sort_at = coalesce(last_run_at, updated_at), fed_version = -version, interrupts = ?2,
  (last_status, last_run, last_error) = (
    SELECT status, id, error_code FROM runs WHERE key = ?1 ORDER BY fence DESC LIMIT 1
  )
WHERE key = ?1;
INSERT INTO heads (
  -- <fragment head_returned>
  key, epoch, tail, fence, driver_fence, run, producer_seq, lease_until, stop_at, finishing, generation, prior_epoch,
  prior_tail, queue, queued, held
  -- </fragment>
  )
VALUES (?1, ?3, ?4, ?5,
  coalesce((SELECT 1 - coalesce(attempt, 1) FROM runs WHERE key = ?1 AND fence = ?5 AND NOT driven AND ?6 IS NOT NULL), 0),
  ?6, ?7, ?8, ?9, ?10, (SELECT max(generation) FROM lineage), NULL, NULL, 0, 0, NULL);
INSERT INTO turns (key, run, project, user, agent, at, check_at, attempt)
SELECT key, ?6, project, user, ?11, ?12, ?8,
  coalesce((SELECT attempt FROM runs WHERE key = ?1 AND fence = ?5 AND NOT driven), 1)
FROM threads WHERE key = ?1 AND ?6 IS NOT NULL
