-- One row per process that has had the data directory open: the beat that it commits every two seconds. A random
-- id names a process, so a restart is a new row.
CREATE TABLE nodes (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  beat       INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  leaving    INTEGER NOT NULL DEFAULT 0,
  skew_ms    INTEGER,
  rtt_us     INTEGER
) WITHOUT ROWID;

-- The generations of this file's history. A restored backup, a copy or a file that went back opens one: commits may have
-- been lost, so what was given out since must not be given out again.
CREATE TABLE lineage (
  generation INTEGER PRIMARY KEY,
  -- Random: tells apart two histories that both opened this generation.
  nonce      INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  cause      TEXT    NOT NULL
);
-- Feeds that were moved up after a restore have given positions of later generations already.
INSERT INTO lineage
SELECT 1 + coalesce((SELECT max(head >> 40) FROM feed_heads), 0), random() & 0x3fffffffffffffff,
  CAST(unixepoch('subsec') * 1000 AS INTEGER), 'created';
-- Generation in which a log got its epoch, and the epoch before with the tail up to which both are the same.
ALTER TABLE heads ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE heads ADD COLUMN prior_epoch INTEGER;
ALTER TABLE heads ADD COLUMN prior_tail INTEGER;
UPDATE heads SET generation = (SELECT generation FROM lineage) WHERE (SELECT generation FROM lineage) > 1;
ALTER TABLE nodes ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;

-- One row for each active run, which its start puts and its end removes: what is active is counted and found without a
-- look at heads. `place` is NULL for an active run. `check_at` is the time at which the reaper looks at the run; an
-- append does not move it, so it may lie before the end of the lease, and never after.
CREATE TABLE turns (
  key      INTEGER NOT NULL,
  run      TEXT    NOT NULL,
  project  TEXT    NOT NULL,
  user     TEXT    NOT NULL,
  agent    TEXT,
  at       INTEGER NOT NULL,
  place    INTEGER,
  check_at INTEGER,
  PRIMARY KEY (key, run)
) WITHOUT ROWID;
CREATE INDEX turns_check ON turns (check_at) WHERE place IS NULL;
CREATE INDEX turns_active ON turns (project, user) WHERE place IS NULL;
INSERT INTO turns (key, run, project, user, agent, at, check_at)
SELECT h.key, h.run, t.project, t.user, r.agent, r.started_at, 0
FROM heads h
JOIN threads t ON t.key = h.key
JOIN runs r ON r.key = h.key AND r.fence = h.fence
WHERE h.run IS NOT NULL;
DROP INDEX heads_active;

-- CRC-32C of the body as it is stored, written with the row and compared at each read. NULL: stored before this column.
ALTER TABLE log ADD COLUMN crc INTEGER;
ALTER TABLE snapshots ADD COLUMN crc INTEGER;

-- Time of the newest events of a log, which the next ones do not precede: a clock may be set back. NULL: not written since.
ALTER TABLE heads ADD COLUMN at INTEGER;
-- Milliseconds by which the store's clock has moved away from what the node expected; NULL: the clock was not set.
ALTER TABLE nodes ADD COLUMN step_ms INTEGER;

-- A thread that was created with an Idempotency-Key keeps it, and its deletion is remembered for a day: the retry of the
-- creation does not create the thread again.
ALTER TABLE threads ADD COLUMN request TEXT;
CREATE TABLE deleted_requests (
  project TEXT    NOT NULL,
  thread  TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (project, thread)
) WITHOUT ROWID;
CREATE INDEX deleted_requests_at ON deleted_requests (at);

-- The history of a feed, as that of a log: another feed, such as that of a user who was erased and came back, has another
-- epoch. The first entry gives a feed its epoch.
ALTER TABLE feed_heads ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE feed_heads ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE feed_heads ADD COLUMN prior_epoch INTEGER;
ALTER TABLE feed_heads ADD COLUMN prior_head INTEGER;
UPDATE feed_heads SET epoch = random() & 0x3fffffffffffffff, generation = (SELECT generation FROM lineage);

-- Background work, put in the commit that causes it. `ref` is what the work is about: of seal, pack and purge the key of a
-- thread. Taking a job moves `due_at` by the length of a claim.
CREATE TABLE jobs (
  kind   TEXT    NOT NULL,
  ref    TEXT    NOT NULL,
  due_at INTEGER NOT NULL,
  tries  INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, ref)
) WITHOUT ROWID;
CREATE INDEX jobs_due ON jobs (kind, due_at);
-- 10: JOB_TRIES.
CREATE INDEX jobs_parked ON jobs (kind) WHERE tries >= 10;
INSERT INTO jobs (kind, ref, due_at)
SELECT 'purge', CAST(key AS TEXT), CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM threads WHERE deleted IN (1, 3);
-- Spread over a day, so that a large database is not packed at once.
INSERT INTO jobs (kind, ref, due_at)
SELECT 'pack', CAST(h.key AS TEXT), CAST(unixepoch('subsec') * 1000 AS INTEGER) + h.key % 1440 * 60000
FROM heads h
LEFT JOIN sealing s ON s.key = h.key
WHERE h.tail > coalesce(s.upto, 0) OR h.run IS NOT NULL;

-- The oldest schema version that a program has to know in order to use this file; the version itself is `user_version`. A
-- step that programs of the version before can live with leaves it; one that they cannot live with raises it to its own
-- number.
CREATE TABLE threadline_schema (min_reader INTEGER NOT NULL);
INSERT INTO threadline_schema VALUES (7);

-- The trash: retention sets `deleted` to 4 and turns the key of the head negative, so that no statement that knows the key finds
-- the thread. `purge_at` is the time from which the thread is purged; until then it can be restored. A restoration counts as use. A
-- purge does not walk over the trash, which is often much more than the tombstones.
ALTER TABLE threads ADD COLUMN trashed_at INTEGER;
ALTER TABLE threads ADD COLUMN purge_at INTEGER;
ALTER TABLE threads ADD COLUMN restored_at INTEGER;
DROP INDEX threads_deleted;
CREATE INDEX threads_deleted ON threads (key) WHERE deleted > 0 AND deleted <> 4;
CREATE INDEX threads_trash ON threads (project, trashed_at DESC, id) WHERE deleted = 4;
CREATE INDEX threads_trash_of ON threads (project, user) WHERE deleted = 4;

-- Projects of which retention would put unusually many threads in the trash, and waits until someone approves a number.
CREATE TABLE retention_holds (
  project  TEXT    NOT NULL PRIMARY KEY,
  idle     INTEGER NOT NULL,
  threads  INTEGER NOT NULL,
  approved INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
