-- What is noted about threads, beside their logs. Goes with its thread.
CREATE TABLE annotations (
  key         INTEGER NOT NULL,
  -- From 1 without a gap, as they came.
  number      INTEGER NOT NULL,
  id          TEXT    NOT NULL,
  kind        TEXT    NOT NULL,
  occurred_at INTEGER,
  at          INTEGER NOT NULL,
  -- JSON.
  payload     TEXT    NOT NULL
);
CREATE UNIQUE INDEX annotations_by_number ON annotations (key, number);
CREATE UNIQUE INDEX annotations_by_id ON annotations (key, id);
