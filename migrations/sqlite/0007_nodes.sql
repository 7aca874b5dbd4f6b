-- One row per process that has had the data directory open: the beat that it commits every two seconds. A random
-- id names a process, so a restart is a new row.
CREATE TABLE nodes (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  started_at INTEGER NOT NULL,
  beat       INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  leaving    INTEGER NOT NULL DEFAULT 0,
  skew_ms    INTEGER,
  rtt_us     INTEGER
) WITHOUT ROWID;
