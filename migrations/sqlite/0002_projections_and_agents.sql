-- What a run has used: `usage` of its terminal event, a JSON array.
ALTER TABLE runs ADD COLUMN usage TEXT;

-- Folded conversations, so that reading one costs what is new. Written in the background; may be lost without harm.
CREATE TABLE snapshots (
  key     INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  -- Version of the fold.
  version INTEGER NOT NULL,
  -- Bytes of the body, uncompressed.
  raw     INTEGER NOT NULL,
  -- zstd.
  body    BLOB    NOT NULL
);
CREATE UNIQUE INDEX snapshots_by_seq ON snapshots (key, seq);

-- Agents that were made over the API. What an agent is stands in its JSON.
CREATE TABLE agents (
  project    TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  definition TEXT    NOT NULL,
  PRIMARY KEY (project, id)
) WITHOUT ROWID;
