-- Lists the trash of a project, what was put there last first. The key of each head, and so of each thread, is negative. No run
-- is active.
-- Caller: trashed in src/sql/tables/trash.rs
-- ?1 project text
-- ?2 at integer: of the last thread of the page before
-- ?3 id text: of the last thread of the page before
-- ?4 user text: of the last thread of the page before
-- ?5 limit integer
-- example: 'p', 9223372036854775807, '', '', 10

SELECT t.trashed_at, t.purge_at,
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
FROM threads t
CROSS JOIN heads h ON h.key = -t.key
LEFT JOIN runs r ON r.key = NULL
WHERE t.project = ?1 AND t.deleted = 4 AND t.trashed_at <= ?2 AND (t.trashed_at < ?2 OR (t.id, t.user) > (?3, ?4))
ORDER BY t.trashed_at DESC, t.id, t.user LIMIT ?5
