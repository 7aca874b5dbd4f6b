-- Reads threads of a user that lists leave out.
-- Caller: unlisted in src/sql/tables/branches.rs
-- $1 project text
-- $2 user text
-- $3 limit bigint
-- example: 'p', 'u', 10

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
FROM threads t
-- <fragment with_head_and_run>
CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h
LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
  ON TRUE
-- </fragment>
WHERE t.project = $1::text AND t.user_id = $2::text AND t.family IS NOT NULL AND t.deleted = 0 AND NOT t.listed
LIMIT $3::bigint
