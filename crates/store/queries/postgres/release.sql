-- Marks a run as finishing, and shortens its lease, after which the reaper looks at the run.
-- Caller: release in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 fence bigint
-- $4 grace bigint: RELEASE_GRACE in ms
-- example: NULL, 1, 1, 5000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, up AS (
  UPDATE heads AS h
  SET finishing = TRUE, lease_until = least(h.lease_until, c.now + $4::bigint)
  FROM c
  WHERE h.key = $2::bigint AND h.fence = $3::bigint AND h.active
  RETURNING h.key, h.run, h.lease_until
), touched AS (
  UPDATE threads AS t SET version = t.version + 1 FROM up WHERE t.key = $2::bigint
), sooner AS (
  UPDATE turns AS t SET check_at = least(t.check_at, up.lease_until) FROM up WHERE t.key = $2 AND t.run = up.run
)
SELECT key FROM up
