-- A project's settings and the secrets of its tokens, both JSON. A project of which nothing was ever set has no row.
CREATE TABLE projects (
  id       text COLLATE "C" PRIMARY KEY,
  -- Counts the changes, from 1: whoever changes it says which version was seen.
  version  bigint NOT NULL,
  settings text   NOT NULL,
  -- The newest first.
  secrets  text   NOT NULL
);

-- API keys. The key itself is not here, only its SHA-256. A revoked key stays, so that its id is not given again.
CREATE TABLE api_keys (
  digest     bytea PRIMARY KEY,
  project    text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  -- Names, separated by spaces.
  scopes     text   NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
CREATE UNIQUE INDEX api_keys_by_id ON api_keys (project, id);

-- Tickets with which sockets are opened. Whoever takes one deletes it.
CREATE TABLE socket_tickets (
  digest bytea  PRIMARY KEY,
  bearer text   NOT NULL,
  until  bigint NOT NULL
);
CREATE INDEX socket_tickets_until ON socket_tickets (until);

-- What was done in projects' own affairs.
CREATE TABLE audit (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project text COLLATE "C" NOT NULL,
  at      bigint NOT NULL,
  actor   text   NOT NULL,
  action  text   NOT NULL,
  -- A JSON object.
  facts   text   NOT NULL
);
CREATE INDEX audit_by_project ON audit (project, number);
