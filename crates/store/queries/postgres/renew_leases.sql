-- Renews leases after the database's clock was set: gives a full one to each active run whose lease ends later than any
-- heartbeat can have moved it, and on request to each whose lease is short. The slack keeps a repetition, by another node,
-- from renewing a second time. Heads are locked in the order of their keys.
-- Caller: renew_leases in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 after bigint: key
-- $3 limit bigint
-- $4 short boolean: whether to renew short leases as well
-- $5 slack bigint: CLOCK_STEP in ms
-- $6 grace bigint: RELEASE_GRACE in ms, the full lease of a run that is finishing
-- $7 stop_grace bigint: STOP_GRACE in ms
-- example: NULL, 0, 10, TRUE, 5000, 5000, 10000

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, page AS MATERIALIZED (
  SELECT key, run FROM turns WHERE place IS NULL AND key > $2::bigint ORDER BY key LIMIT $3::bigint
), locked AS MATERIALIZED (
  SELECT h.key, CASE WHEN h.finishing THEN least(h.lease_ms, $6::bigint) ELSE h.lease_ms END AS lease
  FROM page
  CROSS JOIN LATERAL (
    SELECT heads.key, heads.lease_ms, heads.finishing FROM heads
    WHERE heads.key = page.key AND heads.run = page.run AND heads.active
    FOR NO KEY UPDATE
  ) AS h
), up AS (
  UPDATE heads AS h
  SET
    -- <fragment generation>
    generation = c.generation,
    prior_epoch = CASE WHEN h.generation = c.generation THEN h.prior_epoch ELSE h.epoch END,
    prior_tail = CASE WHEN h.generation = c.generation THEN h.prior_tail ELSE h.tail END,
    epoch = CASE WHEN h.generation = c.generation THEN h.epoch ELSE h.epoch # c.nonce END,
    -- </fragment>
    lease_until = c.now + l.lease,
    stop_at = CASE WHEN $4::boolean AND h.stop_at IS NOT NULL THEN c.now ELSE least(h.stop_at, c.now) END
  FROM locked l
  CROSS JOIN c
  WHERE h.key = l.key
    AND (h.lease_until > c.now + l.lease + $5::bigint OR h.stop_at > c.now + $5
         OR ($4 AND h.lease_until < c.now + l.lease - $5))
  RETURNING h.key, h.run, h.lease_until, h.stop_at
), moved AS (
  UPDATE turns AS t SET check_at = least(up.lease_until, up.stop_at + $7::bigint)
  FROM up
  WHERE t.key = up.key AND t.run = up.run
)
SELECT (SELECT count(*) FROM up), (SELECT count(*) FROM page), (SELECT max(key) FROM page)
