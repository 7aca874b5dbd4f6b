-- Gives a chunk of dirty threads their positions in the feed, in one statement. The statement waits for no thread:
-- threads that another transaction has locked at this moment are left out. Then it takes the feed's head, for which
-- it may wait; the positions of two such statements are never mixed, and become visible in their order. Deleted
-- threads come first, so that a thread created again under an id replaces the entry of its deletion. If another pump
-- placed that thread before the deletion gets here, the entry keeps the thread: a deletion removes only its own
-- thread from an entry. A purged tombstone is not needed any more. The first entry gives the feed a random epoch; at its
-- first change in another generation the feed gets another one, as logs do. Returns the feed's head, and the numbers of
-- dirty threads seen and fed.
-- Caller: pump_feed in src/postgres/feed.rs
-- $1 project text
-- $2 user text
-- $3 limit bigint
-- example: 'p', 'u', 10

WITH l AS MATERIALIZED (SELECT generation, nonce FROM threadline_lineage()
), seen AS MATERIALIZED (
  SELECT key FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version LIMIT $3::bigint + 1
), dirty AS MATERIALIZED (
  SELECT key, id, deleted FROM threads
  WHERE project = $1 AND user_id = $2 AND version > fed_version
  ORDER BY deleted = 0, key LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
), head AS (
  INSERT INTO feed_heads AS f (project, user_id, head, epoch, generation)
  SELECT $1, $2, count(*), ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387903, l.generation
  FROM dirty CROSS JOIN l
  GROUP BY l.generation
  ON CONFLICT (project, user_id) DO UPDATE SET head = f.head + excluded.head,
  -- <fragment feed_generation>
  generation = excluded.generation,
  prior_epoch = CASE WHEN f.generation = excluded.generation THEN f.prior_epoch ELSE f.epoch END,
  prior_head = CASE WHEN f.generation = excluded.generation THEN f.prior_head ELSE f.head END,
  epoch = CASE WHEN f.generation = excluded.generation THEN f.epoch ELSE f.epoch # (SELECT nonce FROM l) END
  -- </fragment>
  RETURNING f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
), placed AS MATERIALIZED (
  SELECT d.key, d.id, d.deleted,
    head.head - (SELECT count(*) FROM dirty) + row_number() OVER (ORDER BY d.deleted = 0, d.key) AS pos
  FROM dirty d
  CROSS JOIN head
), put AS (
  INSERT INTO feed_entries AS e (project, user_id, thread, pos, key)
  SELECT DISTINCT ON (id) $1, $2, id, pos, CASE WHEN deleted = 0 THEN key END
  FROM placed
  ORDER BY id, pos DESC
  ON CONFLICT (project, user_id, thread) DO UPDATE SET pos = excluded.pos,
    key = CASE WHEN excluded.key IS NULL AND NOT e.key = ANY (ARRAY(SELECT key FROM placed)) THEN e.key
    ELSE excluded.key END
), fed AS (
  UPDATE threads AS t SET fed_version = t.version FROM dirty d WHERE d.deleted <> 2 AND t.key = d.key
), swept AS (
  DELETE FROM threads AS t USING dirty d WHERE d.deleted = 2 AND t.key = d.key
)
SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
  , (SELECT count(*) FROM seen), (SELECT count(*) FROM dirty)
FROM (SELECT 1) AS one
LEFT JOIN (
  SELECT * FROM head
  UNION ALL
  SELECT head, epoch, generation, prior_epoch, prior_head FROM feed_heads
  WHERE project = $1 AND user_id = $2 AND NOT EXISTS (SELECT FROM head)
) f ON TRUE
