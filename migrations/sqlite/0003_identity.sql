-- A project's settings and the secrets of its tokens, both JSON. A project of which nothing was ever set has no row.
CREATE TABLE projects (
  id       TEXT    PRIMARY KEY,
  -- Counts the changes, from 1: whoever changes it says which version was seen.
  version  INTEGER NOT NULL,
  settings TEXT    NOT NULL,
  -- The newest first.
  secrets  TEXT    NOT NULL
) WITHOUT ROWID;

-- API keys. The key itself is not here, only its SHA-256. A revoked key stays, so that its id is not given again.
CREATE TABLE api_keys (
  digest     BLOB    PRIMARY KEY,
  project    TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  -- Names, separated by spaces.
  scopes     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_by_id ON api_keys (project, id);

-- Tickets with which sockets are opened. Whoever takes one deletes it.
CREATE TABLE socket_tickets (
  digest BLOB    PRIMARY KEY,
  bearer TEXT    NOT NULL,
  until  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX socket_tickets_until ON socket_tickets (until);

-- What was done in projects' own affairs.
CREATE TABLE audit (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  actor   TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  -- A JSON object.
  facts   TEXT    NOT NULL
);
CREATE INDEX audit_by_project ON audit (project, number);
