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
