-- Marks a run in its first attempt as finishing, and shortens its lease, after which the reaper looks at the run.
-- Caller: release in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 fence bigint
-- $4 grace bigint: RELEASE_GRACE in ms
-- $5 epoch bigint: that the log must have, or NULL
-- example: NULL, 1, 1, 5000, NULL

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, up AS (
  UPDATE heads AS h
  SET
    -- <fragment generation>
    generation = c.generation,
    prior_epoch = CASE WHEN h.generation = c.generation THEN h.prior_epoch ELSE h.epoch END,
    prior_tail = CASE WHEN h.generation = c.generation THEN h.prior_tail ELSE h.tail END,
    epoch = CASE WHEN h.generation = c.generation THEN h.epoch ELSE h.epoch # c.nonce END,
    -- </fragment>
    finishing = TRUE, lease_until = least(h.lease_until, c.now + $4::bigint)
  FROM c
  WHERE h.key = $2::bigint AND h.fence = $3::bigint AND h.driver_fence = -1000000 * (h.fence >> 32) AND h.active
    AND ($5::bigint IS NULL OR h.epoch = $5)
  RETURNING h.key, h.run, h.lease_until
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2::bigint
), sooner AS (
  UPDATE turns AS t SET check_at = least(t.check_at, up.lease_until) FROM up WHERE t.key = $2 AND t.run = up.run
)
SELECT key FROM up
