-- Restores the thread of a user and an id that was put in the trash last, unless the id is taken: by a thread of the user, or,
-- if the restored one has claimed it, by another claimed one. Answers with 1 if the thread of this id is one that was restored,
-- now or before; with 2 if another thread has the id; with 0 if the trash has no such thread.
-- Caller: restore in src/sql/tables/trash.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 thread text: id of the thread
-- $4 user text
-- $5 actor text: of the entry in the audit
-- $6 action text
-- $7 facts text
-- example: NULL, 'p', 't', 'u', 'operator', 'thread.restored', '{}'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, found AS MATERIALIZED (
  SELECT key, claimed FROM threads
  WHERE project = $2::text AND user_id = $4::text AND id = $3::text AND deleted = 4
  ORDER BY trashed_at DESC, key DESC LIMIT 1
), there AS MATERIALIZED (
  SELECT restored_at FROM threads WHERE project = $2 AND user_id = $4 AND id = $3 AND deleted = 0
), claimant AS MATERIALIZED (
  SELECT key FROM threads
  WHERE project = $2 AND id = $3 AND deleted = 0 AND claimed AND (SELECT claimed FROM found)
), up AS (
  UPDATE heads AS h
  SET
    -- <fragment generation>
    generation = c.generation,
    prior_epoch = CASE WHEN h.generation = c.generation THEN h.prior_epoch ELSE h.epoch END,
    prior_tail = CASE WHEN h.generation = c.generation THEN h.prior_tail ELSE h.tail END,
    epoch = CASE WHEN h.generation = c.generation THEN h.epoch ELSE h.epoch # c.nonce END,
    -- </fragment>
    key = -h.key
  FROM c
  WHERE h.key = (SELECT -key FROM found) AND NOT EXISTS (SELECT 1 FROM there)
    AND NOT EXISTS (SELECT 1 FROM claimant)
  RETURNING h.key
), back AS (
  UPDATE threads AS t
  SET deleted = 0, trashed_at = NULL, purge_at = NULL, restored_at = c.now, version = t.version + 1
  FROM c
  WHERE t.key = (SELECT key FROM up)
  RETURNING t.key
), unqueued AS (
  DELETE FROM jobs WHERE kind = 'purge' AND ref = (SELECT key::text FROM back)
), noted AS (
  INSERT INTO audit (project, at, actor, action, facts)
  SELECT $2, c.now, $5::text, $6::text, $7::text FROM back CROSS JOIN c
), forgotten AS (
  DELETE FROM deleted_requests d USING back b WHERE d.project = $2 AND d.thread = $3
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM back) OR EXISTS (SELECT 1 FROM there WHERE restored_at IS NOT NULL) THEN 1
  WHEN EXISTS (SELECT 1 FROM found) THEN 2 ELSE 0 END::bigint
