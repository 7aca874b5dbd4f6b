-- Key with which a key was created (NULL: the operator or a program before this step created it), and the last use that a node has
-- noted (NULL: none).
ALTER TABLE api_keys
  ADD COLUMN made_by        text COLLATE "C",
  ADD COLUMN last_used_at   bigint,
  ADD COLUMN last_used_from text;

-- Sign-outs: tokens of a subject that were issued up to the time `not_before` are refused. `subject` is a keyed
-- digest, since the name of an erased user must not be kept. `kind` is 'user', 'key' or 'project'.
CREATE TABLE cutoffs (
  project    text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  subject    bytea  NOT NULL,
  not_before bigint NOT NULL,
  at         bigint NOT NULL,
  actor      text   NOT NULL,
  PRIMARY KEY (project, kind, subject)
);
-- Nodes read new rows by this index, and remove old ones.
CREATE INDEX cutoffs_at ON cutoffs (at);

-- Origin (scheme, host and port) of the last definition of an agent. The row stays when the agent is deleted, so that a new
-- agent of this name cannot have another origin.
CREATE TABLE agent_origins (
  project text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,
  origin  text NOT NULL,
  PRIMARY KEY (project, id)
);
