-- Puts a piece of a feed, only if the feed's head is still as given. All entries of the feed are among the new ones,
-- at positions above all that it gave. A pump locks threads before the feed's head, so locked threads are left out
-- here: they are being fed, or will be.
-- Caller: put_taken in src/postgres/transfer.rs
-- $1 project text
-- $2 user text
-- $3 head bigint: the head that the feed must have
-- $4 upto bigint: the head that it gets
-- $5 positions bigint[]
-- $6 threads text[]: ids
-- example: 'p', 'u', 0, 1, '{1}', '{t}'

WITH head AS (
  INSERT INTO feed_heads AS f (project, user_id, head)
  VALUES ($1::text, $2::text, $4::bigint)
  ON CONFLICT (project, user_id) DO UPDATE SET head = excluded.head
  WHERE f.head = $3::bigint
  RETURNING f.head
), put AS (
  INSERT INTO feed_entries (project, user_id, thread, pos, key)
  SELECT $1, $2, v.thread, v.pos, t.key FROM head
  CROSS JOIN unnest($5::bigint[], $6::text[]) AS v (pos, thread)
  LEFT JOIN threads t ON t.project = $1 AND t.id = v.thread AND t.deleted = 0 AND t.user_id = $2
  ON CONFLICT (project, user_id, thread) DO UPDATE SET pos = excluded.pos, key = excluded.key
  RETURNING key
), owed AS MATERIALIZED (
  SELECT t.key FROM put
  CROSS JOIN LATERAL (
    SELECT threads.key FROM threads
    WHERE threads.key = put.key AND threads.fed_version < 0
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS t
), settled AS (
  UPDATE threads AS t SET fed_version = -t.fed_version FROM owed WHERE t.key = owed.key AND t.fed_version < 0
)
SELECT head FROM head
