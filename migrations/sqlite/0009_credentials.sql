-- Key with which a key was created (NULL: the operator or a program before this step created it), and the last use that a node has
-- noted (NULL: none).
ALTER TABLE api_keys ADD COLUMN made_by TEXT;
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
ALTER TABLE api_keys ADD COLUMN last_used_from TEXT;

-- Sign-outs: tokens of a subject that were issued up to the time `not_before` are refused. `subject` is a keyed
-- digest, since the name of an erased user must not be kept. `kind` is 'user', 'key' or 'project'.
CREATE TABLE cutoffs (
  project    TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  subject    BLOB    NOT NULL,
  not_before INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  actor      TEXT    NOT NULL,
  PRIMARY KEY (project, kind, subject)
) WITHOUT ROWID;
-- The server reads new rows by this index, and removes old ones.
CREATE INDEX cutoffs_at ON cutoffs (at);

-- Origin (scheme, host and port) of the last definition of an agent. The row stays when the agent is deleted, so that a new
-- agent of this name cannot have another origin.
CREATE TABLE agent_origins (
  project TEXT NOT NULL,
  id      TEXT NOT NULL,
  origin  TEXT NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;
