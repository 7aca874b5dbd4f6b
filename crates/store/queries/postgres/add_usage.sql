-- Adds to the sums of users and of their projects; answers with the changed sums. A user who has no sum, no thread, no key-value entry and no plain stream
-- gets none: the user was erased. Locks the rows of users first, each statement in the same order.
-- Caller: add_usage in src/sql/tables/usage.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 added text: [[project, user, bytes, threads], …], each user once
-- $3 counted bigint: age of the last count of a new row, in ms
-- example: NULL, '[["p","u",10,1]]', 86100000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, added AS MATERIALIZED (
  SELECT a ->> 0 AS project, a ->> 1 AS user_id, (a ->> 2)::bigint AS bytes, (a ->> 3)::bigint AS threads
  FROM jsonb_array_elements($2::text::jsonb) AS a
), kept AS MATERIALIZED (
  SELECT a.project, a.user_id, a.bytes, a.threads FROM added a
  WHERE EXISTS (SELECT 1 FROM usage u WHERE u.project = a.project AND u.owner = a.user_id OFFSET 0)
    OR EXISTS (
      SELECT 1 FROM threads t WHERE t.project = a.project AND t.user_id = a.user_id AND t.deleted <> 2 OFFSET 0
    )
    OR EXISTS (SELECT 1 FROM kv WHERE kv.project = a.project AND kv.owner = a.user_id OFFSET 0)
    OR EXISTS (SELECT 1 FROM streams s WHERE s.project = a.project AND s.owner = a.user_id OFFSET 0)
), sums AS MATERIALIZED (
  SELECT project, user_id, bytes, threads FROM kept
  UNION ALL
  SELECT project, '', sum(bytes)::bigint, sum(threads)::bigint FROM kept GROUP BY project
)
INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
SELECT s.project, s.user_id, s.bytes, s.threads, c.now - $3::bigint FROM sums s
CROSS JOIN c
ORDER BY s.user_id = '', s.project, s.user_id
ON CONFLICT (project, owner)
DO UPDATE SET bytes = u.bytes + excluded.bytes, threads = u.threads + excluded.threads
RETURNING u.project, u.owner, u.bytes, u.threads
