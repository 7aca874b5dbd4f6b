-- Searches a window of threads for idle ones. Every row has the key after which the search continues; if there is no
-- thread, one row has this key alone.
-- Caller: idle_threads in src/sql/tables/erasure.rs
-- $1 project text
-- $2 before bigint: time
-- $3 after bigint: key
-- $4 window bigint
-- example: 'p', 1000, 0, 100

SELECT w.next,
  -- <fragment thread_columns>
  t.project, t.id, t.user_id, t.agent, t.name, t.name_source, t.archived, t.metadata, t.created_at, t.updated_at,
  t.last_run_at, t.version, t.created_with, t.read_seq
  -- </fragment>
  ,
  -- <fragment head_columns>
  h.key, h.epoch, h.tail, h.fence, CASE WHEN h.active THEN h.run END, h.producer_seq, h.lease_until, h.stop_at,
  h.finishing, h.generation, h.prior_epoch, h.prior_tail
  -- </fragment>
  ,
  -- <fragment run_columns>
  r.fence, r.id, r.agent, r.status, r.error_code, r.error_message, r.usage, r.first_seq, r.producer_seq, r.started_at,
  r.ended_at, r.stop_at, r.driven
  -- </fragment>
FROM (
  SELECT max(key) AS last, CASE WHEN count(*) >= $4::bigint THEN max(key) END AS next
  FROM (SELECT key FROM threads WHERE key > $3::bigint ORDER BY key LIMIT $4) AS k
) AS w
LEFT JOIN LATERAL (
  SELECT * FROM threads
  WHERE threads.key > $3 AND threads.key <= w.last AND threads.deleted < 1 AND threads.project = $1::text
    AND threads.sort_at < $2::bigint AND coalesce(threads.restored_at, threads.sort_at) < $2 AND NOT (SELECT active FROM heads WHERE heads.key = threads.key)
  OFFSET 0
) AS t ON TRUE
-- <fragment with_head_and_run_if_any>
LEFT JOIN LATERAL (SELECT * FROM heads WHERE heads.key = t.key OFFSET 0) AS h ON TRUE
LEFT JOIN LATERAL (SELECT * FROM runs WHERE runs.key = h.key AND runs.fence = h.fence AND h.active OFFSET 0) AS r
  ON TRUE
-- </fragment>
ORDER BY t.key
