-- Sums of stored data of users and projects. Of a project with all its users, `owner` is empty, as the id of no user is.
CREATE TABLE usage (
  project    TEXT    NOT NULL,
  owner      TEXT    NOT NULL,
  -- Bytes of events, uncompressed: the sum of log.raw.
  bytes      INTEGER NOT NULL,
  -- Threads whose rows are there, those in the trash included.
  threads    INTEGER NOT NULL,
  -- Time of the last count; 0: none yet, so that the next pass counts the row.
  checked_at INTEGER NOT NULL,
  PRIMARY KEY (project, owner)
) WITHOUT ROWID;
CREATE INDEX usage_checked ON usage (checked_at);
CREATE INDEX threads_counted ON threads (project, user, key) WHERE deleted <> 2;

-- Threads are counted here; bytes, which are in the logs, by the first pass.
INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT project, user, 0, count(*), 0 FROM threads WHERE deleted <> 2 GROUP BY project, user;
INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT project, '', 0, sum(threads), 1 FROM usage GROUP BY project;
