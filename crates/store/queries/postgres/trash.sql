-- Puts threads in the trash that are still idle: without an active run, and last used before a time, as all branches of their family. The same statement turns
-- the key of the head negative, so that a start, an append or a read that knows the key finds nothing. A head or a thread that
-- another statement has locked is in use, and left out. Answers with the keys of the threads.
-- Caller: trash in src/sql/tables/trash.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 keys text: [key, …]
-- $3 project text
-- $4 before bigint: time
-- $5 grace bigint: in ms
-- example: NULL, '[1]', 'p', 1000, 60000

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, locked AS MATERIALIZED (
  SELECT h.key FROM json_array_elements_text($2::text::json) AS w (key)
  CROSS JOIN LATERAL (
    SELECT heads.key FROM heads WHERE heads.key = w.key::bigint AND NOT heads.active FOR UPDATE SKIP LOCKED
  ) AS h
), idle AS MATERIALIZED (
  SELECT t.key FROM locked l
  CROSS JOIN LATERAL (
    SELECT threads.key FROM threads
    WHERE threads.key = l.key AND threads.project = $3::text AND threads.deleted < 1 AND threads.sort_at < $4::bigint
      AND coalesce(threads.restored_at, threads.sort_at) < $4
      AND NOT EXISTS (
        SELECT FROM threads AS o
        WHERE o.project = $3 AND o.user_id = threads.user_id AND o.family = threads.family AND o.deleted = 0 AND o.sort_at >= $4
      )
    FOR NO KEY UPDATE SKIP LOCKED
  ) AS t
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
  FROM idle i
  CROSS JOIN c
  WHERE h.key = i.key AND NOT h.active
  RETURNING -h.key AS key
), trashed AS (
  UPDATE threads AS t
  SET deleted = 4, trashed_at = c.now, purge_at = c.now + $5::bigint, version = t.version + 1
  FROM up
  CROSS JOIN c
  WHERE t.key = up.key
  RETURNING t.key, t.project, t.id, t.request, t.purge_at
), noted AS (
  INSERT INTO deleted_requests (project, thread, at)
  SELECT t.project, t.id, c.now FROM trashed t CROSS JOIN c WHERE t.request IS NOT NULL
  ON CONFLICT (project, thread) DO UPDATE SET at = excluded.at
), queued AS (
  INSERT INTO jobs AS j (kind, ref, due_at) SELECT 'purge', t.key::text, t.purge_at FROM trashed t
  ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0
)
SELECT key FROM trashed ORDER BY key
