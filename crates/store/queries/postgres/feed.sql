-- Reads a page of a feed. Every row has the head of the feed; if there is no entry, one row has the head alone.
-- Caller: feed in src/postgres/feed.rs
-- $1 project text
-- $2 user text
-- $3 after bigint: position
-- $4 limit bigint
-- example: 'p', 'u', 0, 10

SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
  , e.pos, e.thread,
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
FROM feed_heads f
LEFT JOIN (
  SELECT pos, thread, key FROM feed_entries WHERE project = $1 AND user_id = $2 AND pos > $3 ORDER BY pos LIMIT $4
) e ON TRUE
LEFT JOIN LATERAL (SELECT * FROM threads WHERE threads.key = e.key AND threads.deleted < 1 AND threads.listed OFFSET 0) AS t ON TRUE
-- <fragment with_head_and_run_if_any>
LEFT JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h ON TRUE
LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
  ON TRUE
-- </fragment>
WHERE f.project = $1 AND f.user_id = $2
ORDER BY e.pos
