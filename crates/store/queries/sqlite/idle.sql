-- Searches a window of threads for idle ones. The next position is in every row, and in one without a thread if the
-- window has none. The condition is `deleted < 1` and not `= 0`: the statement must walk over the threads of the
-- window, not over all of the project.
-- Caller: idle_threads in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 before integer: time
-- ?3 after integer: key
-- ?4 window integer
-- example: 'p', 1000, 0, 100

SELECT w.next,
  -- <fragment thread_columns>
  t.project, t.id, t.user, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, t.updated_at,
  t.last_run_at, t.version, t.created_with, t.read_seq
  -- </fragment>
  ,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, h.run, h.producer_seq, h.lease_until, h.stop_at, h.finishing, h.generation,
  h.prior_epoch, h.prior_tail
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven
  -- </fragment>
FROM (
  SELECT max(key) AS last, CASE WHEN count(*) >= ?4 THEN max(key) END AS next
  FROM (SELECT key FROM threads WHERE key > ?3 ORDER BY key LIMIT ?4) AS page
) AS w
LEFT JOIN threads t ON t.key > ?3 AND t.key <= w.last AND t.deleted < 1 AND t.project = ?1 AND t.sort_at < ?2
  AND coalesce(t.restored_at, t.sort_at) < ?2 AND NOT EXISTS (
  SELECT 1 FROM heads WHERE heads.key = t.key AND heads.run IS NOT NULL
)
LEFT JOIN heads h ON h.key = t.key
-- <fragment with_active_run>
LEFT JOIN runs r ON r.key = h.key AND r.fence = h.fence AND h.run IS NOT NULL
-- </fragment>
ORDER BY t.key
