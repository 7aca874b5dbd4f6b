-- Removes a chunk of a feed. A pump may be writing some of the entries: locked ones are skipped, so that no statement
-- waits for another. Answers with a row for each entry removed.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- $1 project text
-- $2 user text
-- $3 limit bigint
-- example: 'p', 'u', 10

WITH chunk AS MATERIALIZED (
  SELECT thread FROM feed_entries
  WHERE project = $1::text AND user_id = $2::text
  ORDER BY pos LIMIT $3::bigint FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM feed_entries
  WHERE project = $1 AND user_id = $2 AND thread = ANY (ARRAY(SELECT thread FROM chunk))
  RETURNING thread
)
SELECT thread FROM gone
