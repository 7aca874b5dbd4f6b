-- Threadline on SQLite. Times are milliseconds since 1970 UTC. One process writes, through one connection.
-- Hot statements reach heads and log by thread key only.

-- A thread, or the tombstone of one. AUTOINCREMENT: a key is never used twice, so whatever was meant for a
-- deleted thread cannot touch the thread made later under the same id.
CREATE TABLE threads (
  key          INTEGER PRIMARY KEY AUTOINCREMENT,
  project      TEXT    NOT NULL,
  id           TEXT    NOT NULL,
  user         TEXT    NOT NULL,
  agent        TEXT,
  name         TEXT,
  name_source  INTEGER,
  archived     INTEGER NOT NULL DEFAULT 0,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  last_run_at  INTEGER,
  -- COALESCE(last_run_at, updated_at): written at run start, run end and edits, never per append.
  sort_at      INTEGER NOT NULL,
  -- Counts the changes; the feed owes a position while version > fed_version.
  version      INTEGER NOT NULL,
  fed_version  INTEGER NOT NULL DEFAULT 0,
  -- 0 alive; 1 deleted, rows are left; 2 deleted and purged, only the feed still has to hear of it.
  deleted      INTEGER NOT NULL DEFAULT 0,
  created_with TEXT    NOT NULL,
  metadata     TEXT    NOT NULL
);
CREATE UNIQUE INDEX threads_by_id ON threads (project, id) WHERE deleted = 0;
CREATE INDEX threads_recent ON threads (project, user, sort_at DESC, id) WHERE deleted = 0;
CREATE INDEX threads_created ON threads (project, user, created_at, id) WHERE deleted = 0;
CREATE INDEX threads_dirty ON threads (project, user, key) WHERE version > fed_version;
CREATE INDEX threads_deleted ON threads (key) WHERE deleted > 0;

-- The one point of concurrency of a thread. Narrow: every append rewrites it. The row goes with its thread.
CREATE TABLE heads (
  key          INTEGER PRIMARY KEY,
  epoch        INTEGER NOT NULL,
  tail         INTEGER NOT NULL DEFAULT 0,
  -- Fence of the newest run, active or not.
  fence        INTEGER NOT NULL DEFAULT 0,
  -- Id of the active run; the columns below mean something only while there is one.
  run          TEXT,
  producer_seq INTEGER NOT NULL DEFAULT 0,
  lease_ms     INTEGER NOT NULL DEFAULT 0,
  lease_until  INTEGER NOT NULL DEFAULT 0,
  stop_at      INTEGER,
  finishing    INTEGER NOT NULL DEFAULT 0
);
-- For the reaper. Deliberately not on lease_until: an append would then have to move its entry every time.
CREATE INDEX heads_active ON heads (key) WHERE run IS NOT NULL;

-- The record of a run. While it is active, its head knows better (producer_seq, stop_at, finishing).
CREATE TABLE runs (
  key           INTEGER NOT NULL,
  fence         INTEGER NOT NULL,
  id            TEXT    NOT NULL,
  agent         TEXT,
  status        INTEGER NOT NULL,
  error_code    TEXT,
  error_message TEXT,
  first_seq     INTEGER NOT NULL,
  producer_seq  INTEGER NOT NULL,
  started_at    INTEGER NOT NULL,
  ended_at      INTEGER,
  stop_at       INTEGER,
  PRIMARY KEY (key, fence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX runs_by_id ON runs (key, id);

-- The log: one row per append batch (events one a line) or per segment (zstd, fence NULL).
-- A thread's rows cover 1 ..= tail without a hole. body stands last, so that the rest is read without it.
CREATE TABLE log (
  key       INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq  INTEGER NOT NULL,
  fence     INTEGER,
  at        INTEGER NOT NULL,
  -- Bytes of events, uncompressed.
  raw       INTEGER NOT NULL,
  body      BLOB    NOT NULL
);
-- Unique as an assertion only: no statement relies on its refusal.
CREATE UNIQUE INDEX log_by_seq ON log (key, first_seq);

-- Up to where sealing has decided. A table of its own and no index over unsealed rows, so that an append
-- has nothing more to write, and sealing nothing to do with heads.
CREATE TABLE sealing (
  key  INTEGER PRIMARY KEY,
  upto INTEGER NOT NULL
);

-- The feed: the newest change of each thread per user. key NULL: deleted.
CREATE TABLE feed_entries (
  project TEXT    NOT NULL,
  user    TEXT    NOT NULL,
  pos     INTEGER NOT NULL,
  thread  TEXT    NOT NULL,
  key     INTEGER,
  PRIMARY KEY (project, user, pos)
) WITHOUT ROWID;
CREATE UNIQUE INDEX feed_by_thread ON feed_entries (project, user, thread);

-- The newest position of each feed.
CREATE TABLE feed_heads (
  project TEXT    NOT NULL,
  user    TEXT    NOT NULL,
  head    INTEGER NOT NULL,
  PRIMARY KEY (project, user)
) WITHOUT ROWID;
