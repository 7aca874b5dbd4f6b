-- Key-value entries: values that agents keep, by namespace and key.
CREATE TABLE kv (
  project    TEXT    NOT NULL,
  -- User, or empty for the entries of the project itself.
  owner      TEXT    NOT NULL,
  -- Labels, each with U+001F behind it.
  ns         TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  -- JSON.
  value      BLOB    NOT NULL,
  -- Bytes of the value.
  size       INTEGER NOT NULL,
  tag        TEXT    NOT NULL,
  -- Key of the thread with which the entry goes.
  thread     INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (project, owner, ns, key)
);
CREATE INDEX kv_thread ON kv (thread) WHERE thread IS NOT NULL;
CREATE INDEX kv_expiring ON kv (expires_at) WHERE expires_at IS NOT NULL;

-- Item lists of threads: what frameworks keep in order, such as the items of a session.
CREATE TABLE item_lists (
  key      INTEGER NOT NULL,
  list     TEXT NOT NULL,
  -- Changed with each operation.
  tag      TEXT NOT NULL,
  count    INTEGER NOT NULL,
  -- Positions are given once.
  next_pos INTEGER NOT NULL,
  PRIMARY KEY (key, list)
);
CREATE TABLE items (
  key     INTEGER NOT NULL,
  list    TEXT NOT NULL,
  pos     INTEGER NOT NULL,
  -- Bytes of the body.
  size    INTEGER NOT NULL,
  -- JSON.
  body    BLOB  NOT NULL,
  -- Time at which the item was removed, and tag that the operation has given to the list.
  gone_at INTEGER,
  gone_by TEXT,
  PRIMARY KEY (key, list, pos)
);
CREATE INDEX items_gone ON items (gone_at) WHERE gone_at IS NOT NULL;
-- Operations, by which repetitions are known for a day.
CREATE TABLE item_ops (
  key    INTEGER NOT NULL,
  list   TEXT NOT NULL,
  op     TEXT NOT NULL,
  digest BLOB  NOT NULL,
  answer TEXT   NOT NULL,
  at     INTEGER NOT NULL,
  PRIMARY KEY (key, list, op)
);
CREATE INDEX item_ops_old ON item_ops (at);
-- Bytes of the agent data of each thread that has any.
CREATE TABLE agent_data (
  key   INTEGER PRIMARY KEY,
  bytes INTEGER NOT NULL
);
-- Checkpoints of threads: states of a graph that frameworks store at its steps.
CREATE TABLE checkpoints (
  key      INTEGER NOT NULL,
  ns       TEXT NOT NULL,
  id       TEXT NOT NULL,
  -- Owner of the thread, for lists of all threads.
  project  TEXT NOT NULL,
  owner    TEXT NOT NULL,
  parent   TEXT,
  run      TEXT,
  type     TEXT NOT NULL,
  body     BLOB NOT NULL,
  -- JSON object.
  metadata BLOB NOT NULL,
  -- JSON: [[channel, version], …].
  channels TEXT NOT NULL,
  -- Bytes of all that the client has sent.
  size     INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (key, ns, id)
);
CREATE INDEX checkpoints_newest ON checkpoints (key, id, ns);
CREATE INDEX checkpoints_of_project ON checkpoints (project, id, key, ns);
CREATE INDEX checkpoints_of_user ON checkpoints (project, owner, id, key, ns);
CREATE INDEX checkpoints_of_run ON checkpoints (project, run) WHERE run IS NOT NULL;
-- Values of channels. Several checkpoints may have the same one.
CREATE TABLE checkpoint_blobs (
  key     INTEGER NOT NULL,
  ns      TEXT NOT NULL,
  channel TEXT NOT NULL,
  version TEXT NOT NULL,
  type    TEXT NOT NULL,
  body    BLOB NOT NULL,
  size    INTEGER NOT NULL,
  PRIMARY KEY (key, ns, channel, version)
);
-- Writes of tasks beside checkpoints, which may come later.
CREATE TABLE checkpoint_writes (
  key     INTEGER NOT NULL,
  ns      TEXT NOT NULL,
  id      TEXT NOT NULL,
  task    TEXT NOT NULL,
  idx     INTEGER NOT NULL,
  path    TEXT NOT NULL,
  channel TEXT NOT NULL,
  type    TEXT NOT NULL,
  body    BLOB NOT NULL,
  size    INTEGER NOT NULL,
  PRIMARY KEY (key, ns, id, task, idx)
);
-- A program before this step would leave rows of deleted threads and erased users.
UPDATE threadline_schema SET min_reader = 19;
