-- One row per node: the beat that a node commits every second. A random id names a process, so a restart is a new
-- row. Half of a page stays free, so that a beat rewrites its row in place (HOT).
CREATE TABLE nodes (
  id         text COLLATE "C" PRIMARY KEY,
  name       text NOT NULL,
  version    text NOT NULL,
  started_at bigint NOT NULL,
  beat       bigint NOT NULL,
  at         bigint NOT NULL,
  leaving    boolean NOT NULL DEFAULT FALSE,
  skew_ms    bigint,
  rtt_us     bigint
) WITH (fillfactor = 50);

-- One row for each active run, which its start puts and its end removes: what is active is counted and found without a
-- look at heads. `place` is NULL for an active run. `check_at` is the time at which the reaper looks at the run; an
-- append does not move it, so it may lie before the end of the lease, and never after. Vacuumed by a number of dead rows
-- and not by a share of the table, so that a count does not walk over old ones.
CREATE TABLE turns (
  key      bigint NOT NULL,
  run      text COLLATE "C" NOT NULL,
  project  text COLLATE "C" NOT NULL,
  user_id  text COLLATE "C" NOT NULL,
  agent    text COLLATE "C",
  at       bigint NOT NULL,
  place    bigint,
  check_at bigint,
  PRIMARY KEY (key, run)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX turns_check ON turns (check_at) WHERE place IS NULL;
CREATE INDEX turns_active ON turns (project, user_id) WHERE place IS NULL;
INSERT INTO turns (key, run, project, user_id, agent, at, check_at)
SELECT h.key, h.run, t.project, t.user_id, r.agent, r.started_at, 0
FROM heads h
JOIN threads t ON t.key = h.key
JOIN runs r ON r.key = h.key AND r.fence = h.fence
WHERE h.active;
DROP INDEX heads_active;

-- CRC-32C of the body as it is stored, written with the row and compared at each read. NULL: stored before this column.
ALTER TABLE log ADD COLUMN crc bigint;
ALTER TABLE snapshots ADD COLUMN crc bigint;
