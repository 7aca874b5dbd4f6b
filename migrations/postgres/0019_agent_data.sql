-- Key-value entries: values that agents keep, by namespace and key.
CREATE TABLE kv (
  project    text COLLATE "C" NOT NULL,
  -- User, or empty for the entries of the project itself.
  owner      text COLLATE "C" NOT NULL,
  -- Labels, each with U+001F behind it.
  ns         text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  -- JSON.
  value      bytea  NOT NULL,
  -- Bytes of the value.
  size       bigint NOT NULL,
  tag        text COLLATE "C" NOT NULL,
  -- Key of the thread with which the entry goes.
  thread     bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint,
  PRIMARY KEY (project, owner, ns, key)
);
CREATE INDEX kv_thread ON kv (thread) WHERE thread IS NOT NULL;
CREATE INDEX kv_expiring ON kv (expires_at) WHERE expires_at IS NOT NULL;

-- Item lists of threads: what frameworks keep in order, such as the items of a session.
CREATE TABLE item_lists (
  key      bigint NOT NULL,
  list     text COLLATE "C" NOT NULL,
  -- Changed with each operation.
  tag      text COLLATE "C" NOT NULL,
  count    bigint NOT NULL,
  -- Positions are given once.
  next_pos bigint NOT NULL,
  PRIMARY KEY (key, list)
);
CREATE TABLE items (
  key     bigint NOT NULL,
  list    text COLLATE "C" NOT NULL,
  pos     bigint NOT NULL,
  -- Bytes of the body.
  size    bigint NOT NULL,
  -- JSON.
  body    bytea  NOT NULL,
  -- Time at which the item was removed, and tag that the operation has given to the list.
  gone_at bigint,
  gone_by text COLLATE "C",
  PRIMARY KEY (key, list, pos)
);
CREATE INDEX items_gone ON items (gone_at) WHERE gone_at IS NOT NULL;
-- Operations, by which repetitions are known for a day.
CREATE TABLE item_ops (
  key    bigint NOT NULL,
  list   text COLLATE "C" NOT NULL,
  op     text COLLATE "C" NOT NULL,
  digest bytea  NOT NULL,
  answer text   NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (key, list, op)
);
CREATE INDEX item_ops_old ON item_ops (at);
-- Bytes of the agent data of each thread that has any.
CREATE TABLE agent_data (
  key     bigint PRIMARY KEY,
  bytes   bigint NOT NULL,
  -- Changes of checkpoints: by this number a deletion sees that one came between.
  changes bigint NOT NULL DEFAULT 0
);
-- Checkpoints of threads: states of a graph that frameworks store at its steps.
CREATE TABLE checkpoints (
  key      bigint NOT NULL,
  ns       text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  -- Owner of the thread, for lists of all threads.
  project  text COLLATE "C" NOT NULL,
  owner    text COLLATE "C" NOT NULL,
  parent   text COLLATE "C",
  run      text COLLATE "C",
  type     text COLLATE "C" NOT NULL,
  body     bytea NOT NULL,
  -- JSON object.
  metadata bytea NOT NULL,
  -- JSON: [[channel, version], …].
  channels text NOT NULL,
  -- Bytes of all that the client has sent.
  size     bigint NOT NULL,
  at       bigint NOT NULL,
  PRIMARY KEY (key, ns, id)
);
CREATE INDEX checkpoints_newest ON checkpoints (key, id, ns);
CREATE INDEX checkpoints_of_project ON checkpoints (project, id, key, ns);
CREATE INDEX checkpoints_of_user ON checkpoints (project, owner, id, key, ns);
CREATE INDEX checkpoints_of_run ON checkpoints (project, run) WHERE run IS NOT NULL;
-- Values of channels. Several checkpoints may have the same one.
CREATE TABLE checkpoint_blobs (
  key     bigint NOT NULL,
  ns      text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  type    text COLLATE "C" NOT NULL,
  body    bytea NOT NULL,
  size    bigint NOT NULL,
  PRIMARY KEY (key, ns, channel, version)
);
-- Writes of tasks beside checkpoints, which may come later.
CREATE TABLE checkpoint_writes (
  key     bigint NOT NULL,
  ns      text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  task    text COLLATE "C" NOT NULL,
  idx     bigint NOT NULL,
  path    text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  type    text COLLATE "C" NOT NULL,
  body    bytea NOT NULL,
  size    bigint NOT NULL,
  PRIMARY KEY (key, ns, id, task, idx)
);
-- A program before this step would leave rows of deleted threads and erased users.
UPDATE threadline_schema SET min_reader = 19;
