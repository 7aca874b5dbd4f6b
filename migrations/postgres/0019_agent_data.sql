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
