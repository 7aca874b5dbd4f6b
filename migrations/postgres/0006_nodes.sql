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

-- The generations of this database's history. A change of the server's timeline, another server or data that went back
-- opens one: commits may have been lost, so what was given out since must not be given out again.
CREATE TABLE lineage (
  generation bigint PRIMARY KEY,
  -- Random: tells apart two histories that both opened this generation.
  nonce      bigint NOT NULL,
  -- Of the server, when the generation was opened.
  system_id  text   NOT NULL,
  timeline   text   NOT NULL,
  lsn        text   NOT NULL,
  at         bigint NOT NULL,
  cause      text   NOT NULL
);
-- Feeds that were moved up after a restore have given positions of later generations already.
INSERT INTO lineage
SELECT 1 + coalesce((SELECT max(head >> 40) FROM feed_heads), 0),
  ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387903,
  (SELECT system_identifier::text FROM pg_control_system()),
  substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), pg_current_wal_insert_lsn()::text,
  (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 'created';

-- The newest generation. Every statement that changes a head asks for it, and fails on a server whose history no node has
-- adopted yet. VOLATILE: a statement that waited for the lock of an adoption sees the generation that it opened.
CREATE FUNCTION threadline_lineage(OUT generation bigint, OUT nonce bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  adopted text;
BEGIN
  SELECT l.generation, l.nonce, l.timeline INTO generation, nonce, adopted FROM lineage l ORDER BY l.generation DESC LIMIT 1;
  IF adopted IS DISTINCT FROM substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) THEN
    RAISE EXCEPTION 'this history has not been adopted' USING ERRCODE = 'TL001';
  END IF;
END $$;

-- Generation in which a log was last written. At its first write in another one, the log gets another epoch, and keeps
-- the one before with the tail up to which both are the same. In no index, so that appends stay HOT.
ALTER TABLE heads
  ADD COLUMN generation  bigint NOT NULL DEFAULT 1,
  ADD COLUMN prior_epoch bigint,
  ADD COLUMN prior_tail  bigint;
UPDATE heads SET generation = (SELECT generation FROM lineage) WHERE (SELECT generation FROM lineage) > 1;
ALTER TABLE nodes ADD COLUMN generation bigint NOT NULL DEFAULT 1;

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

-- Time of the newest events of a log, which the next ones do not precede: a clock may be set back. NULL: not written since.
-- In no index, so that appends stay HOT.
ALTER TABLE heads ADD COLUMN at bigint;
-- Milliseconds by which the store's clock has moved away from what the node expected; NULL: the clock was not set.
ALTER TABLE nodes ADD COLUMN step_ms bigint;

-- A thread that was created with an Idempotency-Key keeps it, and its deletion is remembered for a day: the retry of the
-- creation does not create the thread again.
ALTER TABLE threads ADD COLUMN request text COLLATE "C";
CREATE TABLE deleted_requests (
  project text COLLATE "C" NOT NULL,
  thread  text COLLATE "C" NOT NULL,
  at      bigint NOT NULL,
  PRIMARY KEY (project, thread)
);
CREATE INDEX deleted_requests_at ON deleted_requests (at);

-- The history of a feed, as that of a log: another feed, such as that of a user who was erased and came back, has another
-- epoch. The first entry gives a feed its epoch.
ALTER TABLE feed_heads
  ADD COLUMN epoch       bigint NOT NULL
    DEFAULT ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387903,
  ADD COLUMN generation  bigint NOT NULL DEFAULT 1,
  ADD COLUMN prior_epoch bigint,
  ADD COLUMN prior_head  bigint;
ALTER TABLE feed_heads ALTER COLUMN epoch DROP DEFAULT;
UPDATE feed_heads SET generation = (SELECT generation FROM lineage) WHERE (SELECT generation FROM lineage) > 1;

-- Background work, put in the commit that causes it. `ref` is what the work is about: of seal, pack and purge the key of a
-- thread. Taking a job moves `due_at` by the length of a claim. An index entry at a due time that has passed is dead soon,
-- so the table is vacuumed by a number of dead rows.
CREATE TABLE jobs (
  kind   text COLLATE "C" NOT NULL,
  ref    text COLLATE "C" NOT NULL,
  due_at bigint NOT NULL,
  tries  bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, ref)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX jobs_due ON jobs (kind, due_at);
-- 10: JOB_TRIES.
CREATE INDEX jobs_parked ON jobs (kind) WHERE tries >= 10;
INSERT INTO jobs (kind, ref, due_at)
SELECT 'purge', key::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM threads WHERE deleted IN (1, 3);
-- Spread over a day, so that a large database is not packed at once.
INSERT INTO jobs (kind, ref, due_at)
SELECT 'pack', h.key::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + h.key % 1440 * 60000
FROM heads h
LEFT JOIN sealing s ON s.key = h.key
WHERE h.tail > coalesce(s.upto, 0) OR h.active;
-- Sealing and packing leave dead rows of logs behind, whose space the next rows take once they are vacuumed.
ALTER TABLE log SET (autovacuum_vacuum_scale_factor = 0.02);

-- The oldest schema version that a program has to know in order to use this database. A step that programs of the version
-- before can live with leaves it; one that they cannot live with raises it to its own number.
ALTER TABLE threadline_schema ADD COLUMN min_reader bigint NOT NULL DEFAULT 6;
ALTER TABLE threadline_schema ALTER COLUMN min_reader DROP DEFAULT;

-- The trash: retention sets `deleted` to 4 and turns the key of the head negative, so that no statement that knows the key finds
-- the thread. `purge_at` is the time from which the thread is purged; until then it can be restored. A restoration counts as use.
ALTER TABLE threads ADD COLUMN trashed_at bigint, ADD COLUMN purge_at bigint, ADD COLUMN restored_at bigint;
CREATE INDEX threads_trash ON threads (project, trashed_at DESC, id) WHERE deleted = 4;
CREATE INDEX threads_trash_of ON threads (project, user_id) WHERE deleted = 4;

-- Projects of which retention would put unusually many threads in the trash, and waits until someone approves a number.
CREATE TABLE retention_holds (
  project  text COLLATE "C" PRIMARY KEY,
  idle     bigint NOT NULL,
  threads  bigint NOT NULL,
  approved bigint NOT NULL DEFAULT 0
);
