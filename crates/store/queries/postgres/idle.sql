-- Reads idle threads of a project, the longest unused first: a range of the index. Each row has the place of a thread, followed
-- by the thread, unless a run is active in it or it was restored since, or another branch of its family was used since.
-- Caller: idle_threads in src/sql/tables/erasure.rs
-- $1 project text
-- $2 before bigint: time
-- $3 at bigint: place after which the range begins
-- $4 key bigint: of that place
-- $5 window bigint
-- example: 'p', 1000, 0, 0, 100

SELECT w.sort_at, w.key,
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
FROM (
  SELECT threads.sort_at, threads.key FROM threads
  WHERE threads.project = $1::text AND threads.deleted = 0 AND threads.sort_at < $2::bigint
    AND (threads.sort_at, threads.key) > ($3::bigint, $4::bigint)
  ORDER BY threads.sort_at, threads.key LIMIT $5::bigint
) AS w
LEFT JOIN LATERAL (
  SELECT * FROM threads
  WHERE threads.key = w.key AND threads.deleted < 1 AND coalesce(threads.restored_at, threads.sort_at) < $2
    AND NOT (SELECT active FROM heads WHERE heads.key = threads.key)
    AND NOT EXISTS (
      SELECT FROM threads AS o
      WHERE o.project = $1 AND o.user_id = threads.user_id AND o.family = threads.family AND o.deleted = 0 AND o.sort_at >= $2
    )
  OFFSET 0
) AS t ON TRUE
-- <fragment with_head_and_run_if_any>
LEFT JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h ON TRUE
LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
  ON TRUE
-- </fragment>
ORDER BY w.sort_at, w.key
