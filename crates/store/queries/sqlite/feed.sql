-- Reads a page of a feed. The head of the feed is in every row, and in one without an entry if the page has none.
-- Caller: feed in src/sqlite/feed.rs
-- ?1 project text
-- ?2 user text
-- ?3 after integer: position
-- ?4 limit integer
-- example: 'p', 'u', 0, 10

SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
  , e.pos, e.thread,
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
FROM feed_heads f
LEFT JOIN (
  SELECT pos, thread, key FROM feed_entries WHERE project = ?1 AND user = ?2 AND pos > ?3 ORDER BY pos LIMIT ?4
) e ON 1
LEFT JOIN threads t ON t.key = e.key AND t.deleted = 0 AND t.listed
LEFT JOIN heads h ON h.key = t.key
-- <fragment with_active_run>
LEFT JOIN runs r ON r.key = h.key AND r.fence = h.fence AND h.run IS NOT NULL
-- </fragment>
WHERE f.project = ?1 AND f.user = ?2
ORDER BY e.pos
