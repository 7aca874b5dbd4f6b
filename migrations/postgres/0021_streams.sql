-- Plain streams of the Durable Streams protocol.
CREATE TABLE streams (
  key        bigint PRIMARY KEY,
  project    text COLLATE "C" NOT NULL,
  -- User, or empty for the streams of the project itself.
  owner      text COLLATE "C" NOT NULL,
  path       text COLLATE "C" NOT NULL,
  -- Changed with each write.
  tag        bigint NOT NULL,
  -- 0: live, 1: deleted, with its path in use, 2: gone, to be removed.
  state      bigint NOT NULL,
  -- Stream that this one is a fork of.
  parent     bigint,
  expires_at bigint,
  -- Bytes of the row, its chunks and its producers.
  size       bigint NOT NULL,
  -- JSON object.
  record     bytea NOT NULL
);
CREATE UNIQUE INDEX streams_place ON streams (project, owner, path) WHERE state < 2;
CREATE INDEX streams_owner ON streams (project, owner);
CREATE INDEX streams_forks ON streams (parent) WHERE parent IS NOT NULL AND state < 2;
CREATE INDEX streams_expiring ON streams (expires_at) WHERE state = 0 AND expires_at IS NOT NULL;
CREATE INDEX streams_over ON streams (state, key) WHERE state > 0;
-- Content of one append each: bytes, or JSON messages on a line each.
CREATE TABLE stream_chunks (
  stream bigint NOT NULL,
  -- Positions before the first and after the last byte or message.
  first  bigint NOT NULL,
  last   bigint NOT NULL,
  -- Bytes of the body.
  size   bigint NOT NULL,
  body   bytea NOT NULL,
  PRIMARY KEY (stream, last)
);
-- Last accepted appends of producers.
CREATE TABLE stream_producers (
  stream   bigint NOT NULL,
  producer text COLLATE "C" NOT NULL,
  epoch    bigint NOT NULL,
  seq      bigint NOT NULL,
  PRIMARY KEY (stream, producer)
);
-- A program before this step would leave streams of erased users.
UPDATE threadline_schema SET min_reader = 21;
