-- Removes a chunk of the log of a deleted thread, and subtracts it from the sums of its user and its project. Other nodes may
-- be purging the same thread, or sealing it: locked rows are skipped, so that no node waits for another.
-- Caller: purge_thread in src/postgres/threads.rs
-- $1 key bigint
-- $2 limit bigint
-- example: 1, 10

WITH doomed AS MATERIALIZED (
  SELECT first_seq FROM log WHERE key = $1 ORDER BY first_seq LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM log USING doomed d WHERE log.key = $1 AND log.first_seq = d.first_seq RETURNING log.raw
), sum AS MATERIALIZED (
  SELECT count(*) AS rows, coalesce(sum(raw), 0)::bigint AS raw FROM gone
), spent AS (
  INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
  SELECT t.project, o.owner, -sum.raw, 0, 0 FROM threads t
  CROSS JOIN sum
  CROSS JOIN LATERAL (VALUES (t.user_id), ('')) AS o (owner)
  WHERE t.key = $1 AND sum.rows > 0
  ORDER BY o.owner = ''
  ON CONFLICT (project, owner)
  DO UPDATE SET bytes = u.bytes + excluded.bytes, threads = u.threads + excluded.threads
)
SELECT rows FROM sum
