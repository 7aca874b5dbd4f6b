-- Threadline on Postgres. Times are milliseconds since 1970 UTC, by the database's clock. Many nodes write.
-- Hot statements reach heads, log and runs by thread key only.
--
-- Expand, then contract: nodes of two releases run side by side during an update, and the newer one migrates first. So a
-- release's step only adds (tables, columns with defaults, indexes); what the older nodes still read or write is taken
-- away one release later at the earliest. Statements name their columns. A step that was released is never changed.

-- Names this set of data, so that nodes of two installations that share a bus do not hear each other.
CREATE TABLE installation (id text NOT NULL);
INSERT INTO installation SELECT gen_random_uuid()::text;

-- A thread, or the tombstone of one. A key is never used twice, so whatever was meant for a deleted thread cannot
-- touch the thread made later under the same id.
CREATE TABLE threads (
  key          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project      text COLLATE "C" NOT NULL,
  id           text COLLATE "C" NOT NULL,
  user_id      text COLLATE "C" NOT NULL,
  agent        text COLLATE "C",
  name         text,
  name_source  bigint,
  archived     boolean NOT NULL DEFAULT FALSE,
  created_at   bigint NOT NULL,
  updated_at   bigint NOT NULL,
  last_run_at  bigint,
  -- COALESCE(last_run_at, updated_at): written at run start, run end and edits, never per append.
  sort_at      bigint NOT NULL,
  -- Counts the changes; the feed owes a position while version > fed_version.
  version      bigint NOT NULL DEFAULT 1,
  fed_version  bigint NOT NULL DEFAULT 0,
  -- 0 alive; 1 deleted, rows are left; 2 deleted and purged, only the feed still has to hear of it.
  deleted      bigint NOT NULL DEFAULT 0,
  created_with text NOT NULL,
  metadata     text NOT NULL
);
CREATE UNIQUE INDEX threads_by_id ON threads (project, id) WHERE deleted = 0;
CREATE INDEX threads_recent ON threads (project, user_id, sort_at DESC, id) WHERE deleted = 0;
CREATE INDEX threads_created ON threads (project, user_id, created_at, id) WHERE deleted = 0;
CREATE INDEX threads_dirty ON threads (project, user_id, key) WHERE version > fed_version;
CREATE INDEX threads_deleted ON threads (key) WHERE deleted = 1;

-- The one point of concurrency of a thread. Narrow, and with room on its page: every append rewrites it there (HOT),
-- since it changes no column of an index. The row goes with its thread.
CREATE TABLE heads (
  key          bigint PRIMARY KEY,
  epoch        bigint NOT NULL,
  tail         bigint NOT NULL DEFAULT 0,
  -- Fence of the newest run, active or not.
  fence        bigint NOT NULL DEFAULT 0,
  -- Of the active run. All of it stays as it was when the run ends; the next start writes it anew.
  producer_seq bigint NOT NULL DEFAULT 0,
  lease_ms     bigint NOT NULL DEFAULT 0,
  lease_until  bigint NOT NULL DEFAULT 0,
  stop_at      bigint,
  active       boolean NOT NULL DEFAULT FALSE,
  finishing    boolean NOT NULL DEFAULT FALSE,
  run          text COLLATE "C"
) WITH (fillfactor = 50);
-- For the reaper. Deliberately not on lease_until: an append would then have to move its entry every time.
CREATE INDEX heads_active ON heads (key) WHERE active;

-- The record of a run. While it is active, its head knows better (producer_seq, finishing).
CREATE TABLE runs (
  key           bigint NOT NULL,
  fence         bigint NOT NULL,
  id            text COLLATE "C" NOT NULL,
  agent         text COLLATE "C",
  status        bigint NOT NULL,
  error_code    text,
  error_message text,
  -- `usage` of its terminal event, a JSON array.
  usage         text,
  first_seq     bigint NOT NULL,
  producer_seq  bigint NOT NULL,
  started_at    bigint NOT NULL,
  ended_at      bigint,
  stop_at       bigint,
  PRIMARY KEY (key, fence)
);
CREATE UNIQUE INDEX runs_by_id ON runs (key, id);

-- The log: one row per append batch (events one a line) or per segment (zstd, fence NULL).
-- A thread's rows cover 1 ..= tail without a hole. The key is unique as an assertion only: no statement relies on its
-- refusal. Bodies of a page or less stay in the row, larger ones are stored beside it; none is compressed again.
CREATE TABLE log (
  key       bigint NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL,
  fence     bigint,
  at        bigint NOT NULL,
  -- Bytes of events, uncompressed.
  raw       bigint NOT NULL,
  body      bytea  NOT NULL,
  PRIMARY KEY (key, first_seq)
) WITH (toast_tuple_target = 8160);
ALTER TABLE log ALTER COLUMN body SET STORAGE EXTERNAL;

-- Up to where sealing has decided. A table of its own and no index over unsealed rows, so that an append
-- has nothing more to write, and sealing nothing to do with heads.
CREATE TABLE sealing (
  key  bigint PRIMARY KEY,
  upto bigint NOT NULL
);

-- The feed: the newest change of each thread per user. key NULL: deleted.
CREATE TABLE feed_entries (
  project text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  thread  text COLLATE "C" NOT NULL,
  pos     bigint NOT NULL,
  key     bigint,
  PRIMARY KEY (project, user_id, thread)
);
CREATE UNIQUE INDEX feed_by_pos ON feed_entries (project, user_id, pos);

-- The newest position of each feed.
CREATE TABLE feed_heads (
  project text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  head    bigint NOT NULL,
  PRIMARY KEY (project, user_id)
);

-- Folded conversations, so that reading one costs what is new. Written in the background; may be lost without harm.
CREATE TABLE snapshots (
  key     bigint NOT NULL,
  seq     bigint NOT NULL,
  -- Version of the fold.
  version bigint NOT NULL,
  -- Bytes of the body, uncompressed.
  raw     bigint NOT NULL,
  -- zstd.
  body    bytea  NOT NULL,
  PRIMARY KEY (key, seq)
);
ALTER TABLE snapshots ALTER COLUMN body SET STORAGE EXTERNAL;

-- Agents that were made over the API. What an agent is stands in its JSON.
CREATE TABLE agents (
  project    text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  definition text NOT NULL,
  PRIMARY KEY (project, id)
);
