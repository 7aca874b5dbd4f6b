-- Removes the rest of a feed, and the sum of the user's stored data. Locks purged tombstones first, then the feed's head, in
-- the order of the pump, and then the sums. The head
-- must be the one in the statement's snapshot: a pump that the statement waited for has put entries that the snapshot
-- lacks, and positions that would be given twice. In this case no part of the feed is removed. Returns whether all of
-- it is.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- $1 project text
-- $2 user text
-- example: 'p', 'u'

WITH seen AS MATERIALIZED (
  SELECT head FROM feed_heads WHERE project = $1::text AND user_id = $2::text
), dead AS MATERIALIZED (
  SELECT key FROM threads
  WHERE project = $1 AND user_id = $2 AND version > fed_version AND deleted = 2
  ORDER BY key FOR UPDATE
), swept AS (
  DELETE FROM threads WHERE key = ANY (ARRAY(SELECT key FROM dead))
), head AS (
  DELETE FROM feed_heads AS f
  USING seen
  WHERE f.project = $1 AND f.user_id = $2 AND f.head = seen.head AND (SELECT count(*) FROM dead) >= 0
  RETURNING f.head
), entries AS (
  DELETE FROM feed_entries AS e USING head WHERE e.project = $1 AND e.user_id = $2
), spent AS (
  DELETE FROM usage AS u WHERE u.project = $1 AND u.owner = $2 AND (SELECT count(*) FROM head) >= 0
  RETURNING u.bytes, u.threads
), rest AS (
  UPDATE usage AS u SET bytes = u.bytes - s.bytes, threads = u.threads - s.threads FROM spent s
  WHERE u.project = $1 AND u.owner = ''
)
SELECT (SELECT count(*) FROM seen) = (SELECT count(*) FROM head)
  AND (SELECT count(*) FROM dead) = (
    SELECT count(*) FROM threads WHERE project = $1 AND user_id = $2 AND version > fed_version AND deleted = 2
  )
