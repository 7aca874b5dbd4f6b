-- Reads idle threads of a project, the longest unused first: a range of the index. Each row has the place of a thread, followed
-- by the thread, unless a run is active in it or it was restored since, or another branch of its family was used since.
-- Caller: idle_threads in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 before integer: time
-- ?3 at integer: place after which the range begins
-- ?4 key integer: of that place
-- ?5 window integer
-- example: 'p', 1000, 0, 0, 100

SELECT w.sort_at, w.key,
  -- <fragment thread_columns>
  t.project, t.id, t.user, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, t.updated_at,
  t.last_run_at, t.version, t.created_with, t.read_seq, t.claimed, t.last_status, t.last_run, t.last_error,
  t.family, t.listed, t.forked_thread, t.forked_epoch, t.forked_seq,
  (SELECT count(*) FROM json_each(t.interrupts))
  -- </fragment>
  ,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.driver_fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail, h.queue, h.queued, h.held
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven, r.author, r.asked_by, r.attempt
  -- </fragment>
FROM (
  SELECT sort_at, key FROM threads
  WHERE project = ?1 AND deleted = 0 AND sort_at < ?2 AND (sort_at, key) > (?3, ?4)
  ORDER BY sort_at, key LIMIT ?5
) AS w
LEFT JOIN threads t ON t.key = w.key AND t.deleted < 1 AND coalesce(t.restored_at, t.sort_at) < ?2 AND NOT EXISTS (
  SELECT 1 FROM heads WHERE heads.key = t.key AND heads.run IS NOT NULL
) AND NOT EXISTS (
  SELECT 1 FROM threads AS o
  WHERE o.project = ?1 AND o.user = t.user AND o.family = t.family AND o.deleted = 0 AND o.sort_at >= ?2
)
LEFT JOIN heads h ON h.key = t.key
-- <fragment with_active_run>
LEFT JOIN runs r ON r.key = h.key AND r.fence = h.fence AND h.run IS NOT NULL
-- </fragment>
ORDER BY w.sort_at, w.key
