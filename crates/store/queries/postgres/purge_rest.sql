-- Removes the last rows of a deleted thread, and takes the thread from the sums of its user and its project. Applies only once no row is left that another node is still removing.
-- The tombstone stays until the feed has the deletion; then the pump removes it. The jobs go with the tombstone: a pump
-- that the statement waited for may have changed it, so that neither part applies, and the next step finds it.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- example: 1

WITH empty AS MATERIALIZED (
  SELECT $1::bigint AS key
  WHERE NOT EXISTS (SELECT 1 FROM log WHERE key = $1) AND NOT EXISTS (SELECT 1 FROM runs WHERE key = $1)
    AND NOT EXISTS (SELECT 1 FROM annotations WHERE key = $1) AND NOT EXISTS (SELECT 1 FROM kv WHERE thread = $1)
    AND NOT EXISTS (SELECT 1 FROM items WHERE key = $1) AND NOT EXISTS (SELECT 1 FROM item_ops WHERE key = $1)
    AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE key = $1) AND NOT EXISTS (SELECT 1 FROM checkpoint_blobs WHERE key = $1)
    AND NOT EXISTS (SELECT 1 FROM checkpoint_writes WHERE key = $1)
), sealing_gone AS (
  DELETE FROM sealing s USING empty e WHERE s.key = e.key
), snapshots_gone AS (
  DELETE FROM snapshots s USING empty e WHERE s.key = e.key
), turns_gone AS (
  -- A deletion that waited for a start or a queued turn has not seen its turn.
  DELETE FROM turns q USING empty e WHERE q.key = e.key
), claims_gone AS (
  DELETE FROM tool_claims t USING empty e WHERE t.key = e.key
), annotated_gone AS (
  DELETE FROM annotated n USING empty e WHERE n.key = e.key
), lists_gone AS (
  DELETE FROM item_lists l USING empty e WHERE l.key = e.key
), loose_gone AS (
  DELETE FROM loose_blobs l USING empty e WHERE l.key = e.key
), data_gone AS (
  DELETE FROM agent_data d USING empty e WHERE d.key = e.key RETURNING d.key, d.bytes
), fed AS (
  DELETE FROM threads t USING empty e
  WHERE t.key = e.key AND t.deleted = 1 AND t.version = t.fed_version
  RETURNING t.key, t.project, t.user_id
), left_over AS (
  UPDATE threads AS t SET deleted = 2 FROM empty e
  WHERE t.key = e.key AND t.deleted = 1 AND t.version > t.fed_version
  RETURNING t.key, t.project, t.user_id
), buried AS (
  SELECT key, project, user_id FROM fed UNION ALL SELECT key, project, user_id FROM left_over
), jobs_gone AS (
  DELETE FROM jobs j USING buried b WHERE j.kind = ANY ('{seal,pack,purge}'::text[]) AND j.ref = b.key::text
), spent AS (
  INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
  SELECT b.project, o.owner, -coalesce((SELECT d.bytes FROM data_gone d WHERE d.key = b.key), 0), -1, 0 FROM buried b
  CROSS JOIN LATERAL (VALUES (b.user_id), ('')) AS o (owner)
  ORDER BY o.owner = ''
  ON CONFLICT (project, owner)
  DO UPDATE SET bytes = u.bytes + excluded.bytes, threads = u.threads + excluded.threads
)
SELECT count(*) FROM buried
