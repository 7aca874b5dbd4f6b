-- Plain streams of the Durable Streams protocol.
CREATE TABLE streams (
  key        INTEGER PRIMARY KEY,
  project    TEXT NOT NULL,
  -- User, or empty for the streams of the project itself.
  owner      TEXT NOT NULL,
  path       TEXT NOT NULL,
  -- Changed with each write.
  tag        INTEGER NOT NULL,
  -- 0: live, 1: deleted, with its path in use, 2: gone, to be removed.
  state      INTEGER NOT NULL,
  -- Stream that this one is a fork of.
  parent     INTEGER,
  expires_at INTEGER,
  -- Bytes of the row, its chunks and its producers.
  size       INTEGER NOT NULL,
  -- JSON object.
  record     BLOB NOT NULL
);
CREATE UNIQUE INDEX streams_place ON streams (project, owner, path) WHERE state < 2;
CREATE INDEX streams_owner ON streams (project, owner);
CREATE INDEX streams_forks ON streams (parent) WHERE parent IS NOT NULL AND state < 2;
CREATE INDEX streams_expiring ON streams (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
CREATE INDEX streams_over ON streams (state, key) WHERE state > 0;
-- Content of one append each: bytes, or JSON messages on a line each.
CREATE TABLE stream_chunks (
  stream INTEGER NOT NULL,
  -- Positions before the first and after the last byte or message.
  first  INTEGER NOT NULL,
  last   INTEGER NOT NULL,
  -- Bytes of the body.
  size   INTEGER NOT NULL,
  body   BLOB NOT NULL,
  PRIMARY KEY (stream, last)
);
-- Last accepted appends of producers.
CREATE TABLE stream_producers (
  stream   INTEGER NOT NULL,
  producer TEXT NOT NULL,
  epoch    INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  PRIMARY KEY (stream, producer)
);
-- A program before this step would leave streams of erased users.
UPDATE threadline_schema SET min_reader = 21;
