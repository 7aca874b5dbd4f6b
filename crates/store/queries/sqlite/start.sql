-- Starts a run, inside a transaction that has found the thread free.
-- Caller: start in src/sqlite/runs.rs
-- ?1 key integer
-- ?2 fence integer: of the run
-- ?3 run text: id of the run
-- ?4 agent text
-- ?5 first_seq integer
-- ?6 now integer: the time
-- ?7 driven integer: 1 if the server drives the run, else NULL
-- ?8 lease integer: in ms
-- ?9 lease_until integer
-- ?10 author text
-- ?11 asked_by text
-- ?12 driver_fence integer: of the driver of the run, or the number of the first attempt as the head has it
-- ?13 attempt integer: number of the first attempt, or NULL for 1
-- example: 1, 1, 'r', NULL, 1, 0, 1, 30000, 30000, 'agent:a', 'user:u', 1, NULL

INSERT INTO runs (key, fence, id, agent, status, first_seq, producer_seq, started_at, driven, author, asked_by, attempt)
VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, ?6, ?7, ?10, ?11, ?13);
UPDATE heads
SET fence = ?2, driver_fence = ?12, run = ?3, producer_seq = 0, lease_ms = ?8, lease_until = ?9, stop_at = NULL, finishing = 0
WHERE key = ?1;
UPDATE threads
SET agent = coalesce(agent, ?4), last_run_at = ?6, sort_at = ?6, version = version + 1, last_status = 0, last_run = ?3,
  last_error = NULL
WHERE key = ?1;
-- 660000: PACK_FIRST_LOOK.
INSERT OR IGNORE INTO jobs (kind, ref, due_at)
SELECT 'pack', CAST(key AS TEXT), last_run_at + 660000 FROM threads WHERE key = ?1;
INSERT INTO turns (key, run, project, user, agent, at, check_at)
SELECT h.key, h.run, t.project, t.user, r.agent, r.started_at, h.lease_until
FROM heads h
CROSS JOIN runs r ON r.key = h.key AND r.fence = h.fence
CROSS JOIN threads t ON t.key = h.key
WHERE h.key = ?1
