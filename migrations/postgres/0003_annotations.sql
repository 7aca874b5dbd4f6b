-- What is noted about threads, beside their logs. Goes with its thread.
CREATE TABLE annotations (
  key         bigint NOT NULL,
  -- From 1 without a gap, as they came.
  number      bigint NOT NULL,
  id          text COLLATE "C" NOT NULL,
  kind        text   NOT NULL,
  occurred_at bigint,
  at          bigint NOT NULL,
  -- JSON.
  payload     text   NOT NULL,
  PRIMARY KEY (key, number)
);
CREATE UNIQUE INDEX annotations_by_id ON annotations (key, id);

-- The newest number of each thread that has annotations. Whoever gives one locks this row and no other, so that the order of
-- the numbers is that of the commits, and no append waits.
CREATE TABLE annotated (
  key    bigint PRIMARY KEY,
  newest bigint NOT NULL
);
