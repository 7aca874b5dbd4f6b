-- Sums of stored data of users and projects. Of a project with all its users, `owner` is empty, as the id of no user is. Nodes
-- rewrite the rows where they stand (HOT). Locks are taken by users first, then by projects.
CREATE TABLE usage (
  project    text COLLATE "C" NOT NULL,
  owner      text COLLATE "C" NOT NULL,
  -- Bytes of events, uncompressed: the sum of log.raw.
  bytes      bigint NOT NULL,
  -- Threads whose rows are there, those in the trash included.
  threads    bigint NOT NULL,
  -- Time of the last count; 0: none yet, so that the next pass counts the row.
  checked_at bigint NOT NULL,
  PRIMARY KEY (project, owner)
) WITH (fillfactor = 50);
CREATE INDEX usage_checked ON usage (checked_at);
CREATE INDEX threads_counted ON threads (project, user_id, key) WHERE deleted <> 2;

-- Threads are counted here; bytes, which are in the logs, by the first pass.
INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT project, user_id, 0, count(*), 0 FROM threads WHERE deleted <> 2 GROUP BY project, user_id;
INSERT INTO usage (project, owner, bytes, threads, checked_at)
SELECT project, '', 0, sum(threads), 1 FROM usage GROUP BY project;
