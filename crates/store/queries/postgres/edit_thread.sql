-- Changes a thread that has the given version. Head and run are read as they were a moment before. The condition is
-- `deleted < 1` and not `= 0`, here and in every statement with a given key: the planner must not consider the
-- indexes on `deleted = 0`.
-- Caller: edit_thread in src/postgres/threads.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 version bigint: the version that the thread must have
-- $4 renamed boolean: whether name and source change
-- $5 name text: or NULL
-- $6 name_source bigint
-- $7 metadata text: or NULL to keep it
-- $8 archived boolean: or NULL to keep it
-- $9 epoch bigint: that the log must have or have had before, or NULL
-- example: NULL, 1, 1, TRUE, 'A name', 1, NULL, NULL, NULL

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, t AS (
  UPDATE threads AS t
  SET name = CASE WHEN $4 THEN $5::text ELSE t.name END,
    name_source = CASE WHEN $4 THEN $6::bigint ELSE t.name_source END, metadata = coalesce($7::text, t.metadata),
    archived = coalesce($8::boolean, t.archived), updated_at = c.now, sort_at = coalesce(t.last_run_at, c.now),
    version = t.version + 1
  FROM c
  WHERE t.key = $2::bigint AND t.version = $3::bigint AND t.deleted < 1
    AND ($9::bigint IS NULL OR EXISTS (SELECT 1 FROM heads WHERE key = $2 AND $9 IN (epoch, prior_epoch)))
  RETURNING t.*
)
SELECT
  -- <fragment thread_columns>
  t.project, t.id, t.user_id, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, t.updated_at,
  t.last_run_at, t.version, t.created_with, t.read_seq, t.claimed, t.last_status, t.last_run, t.last_error,
  t.family, t.listed, t.forked_thread, t.forked_epoch, t.forked_seq,
  (SELECT count(*) FROM jsonb_object_keys(t.interrupts))
  -- </fragment>
  ,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until,
  h.stop_at, h.finishing, h.generation, h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
FROM t
-- <fragment with_head_and_run>
CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h
LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
  ON TRUE
-- </fragment>
