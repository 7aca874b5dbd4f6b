-- Adds to the sums of users and of their projects; answers with the changed sums. A user who has no sum, no thread, no key-value entry and no plain stream
-- gets none: the user was erased.
-- Caller: add_usage in src/sql/tables/usage.rs
-- ?1 now integer: the time
-- ?2 added text: [[project, user, bytes, threads], …], each user once
-- ?3 counted integer: age of the last count of a new row, in ms
-- example: 0, '[["p","u",10,1]]', 86100000

INSERT INTO usage (project, owner, bytes, threads, checked_at)
WITH added AS MATERIALIZED (
  SELECT value ->> 0 AS project, value ->> 1 AS user, value ->> 2 AS bytes, value ->> 3 AS threads FROM json_each(?2)
), kept AS MATERIALIZED (
  SELECT project, user, bytes, threads FROM added AS a
  WHERE EXISTS (SELECT 1 FROM usage u WHERE u.project = a.project AND u.owner = a.user)
    OR EXISTS (SELECT 1 FROM threads t WHERE t.project = a.project AND t.user = a.user AND t.deleted <> 2)
    OR EXISTS (SELECT 1 FROM kv WHERE kv.project = a.project AND kv.owner = a.user)
    OR EXISTS (SELECT 1 FROM streams s WHERE s.project = a.project AND s.owner = a.user)
)
SELECT project, user, bytes, threads, ?1 - ?3 FROM (
  SELECT project, user, bytes, threads FROM kept
  UNION ALL
  SELECT project, '', sum(bytes), sum(threads) FROM kept GROUP BY project
)
WHERE TRUE
ON CONFLICT (project, owner) DO UPDATE SET bytes = bytes + excluded.bytes, threads = threads + excluded.threads
RETURNING project, owner, bytes, threads
