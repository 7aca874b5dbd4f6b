-- Puts a piece of a feed, only if the feed's head is still as given. All entries of the feed are among the new ones,
-- at positions above all that it gave. A feed that is created gets the epoch given, or a random one. A pump locks threads before the feed's head, so locked threads are left out
-- here: they are being fed, or will be.
-- Caller: put_taken in src/postgres/transfer.rs
-- $1 project text
-- $2 user text
-- $3 head bigint: the head that the feed must have
-- $4 upto bigint: the head that it gets
-- $5 positions bigint[]
-- $6 threads text[]: ids
-- $7 epoch bigint: of a feed that is created; 0 for a random one
-- example: 'p', 'u', 0, 1, '{1}', '{t}', 0

WITH l AS MATERIALIZED (SELECT generation, nonce FROM threadline_lineage()
), head AS (
  INSERT INTO feed_heads AS f (project, user_id, head, epoch, generation)
  SELECT $1::text, $2::text, $4::bigint, coalesce(nullif($7::bigint, 0),
    ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387903), l.generation
  FROM l
  ON CONFLICT (project, user_id) DO UPDATE SET head = excluded.head,
  -- <fragment feed_generation>
  generation = excluded.generation,
  prior_epoch = CASE WHEN f.generation = excluded.generation THEN f.prior_epoch ELSE f.epoch END,
  prior_head = CASE WHEN f.generation = excluded.generation THEN f.prior_head ELSE f.head END,
  epoch = CASE WHEN f.generation = excluded.generation THEN f.epoch ELSE f.epoch # (SELECT nonce FROM l) END
  -- </fragment>
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
