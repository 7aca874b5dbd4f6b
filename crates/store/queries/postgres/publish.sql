-- Makes a staged thread visible: it gets its head, a turn if a run is active, and in its row the state of its newest run. A fork
-- needs its parent, which gets the family of the fork if it has none; the feed owes a fork a position.
-- Caller: publish in src/postgres/staging.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 epoch bigint
-- $4 tail bigint: of the log
-- $5 fence bigint
-- $6 active boolean: whether a run is active
-- $7 run text: its id, or NULL
-- $8 producer_seq bigint: of the active run
-- $9 lease_until bigint: at most now
-- $10 stop_at bigint: time of its stop request
-- $11 finishing boolean
-- $12 agent text: of the active run
-- $13 look bigint: PACK_FIRST_LOOK in ms
-- $14 interrupts text: that are open, or NULL
-- $15 parent bigint: key of the thread that is forked; NULL for an import
-- $16 parent_epoch bigint: that its log must have
-- example: NULL, 1, 7, 1, 1, FALSE, NULL, 0, 0, NULL, FALSE, NULL, 660000, NULL, NULL, NULL

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, parent AS MATERIALIZED (
  SELECT h.key FROM heads AS h WHERE h.key = $15::bigint AND h.epoch = $16::bigint FOR KEY SHARE
), there AS (
  UPDATE threads AS t
  SET deleted = 0, sort_at = coalesce(t.last_run_at, t.updated_at), interrupts = $14::text::jsonb,
    fed_version = CASE WHEN $15 IS NULL THEN -t.version ELSE 0 END,
    (last_status, last_run, last_error) = (
      SELECT r.status, r.id, r.error_code FROM runs r WHERE r.key = $2 ORDER BY r.fence DESC LIMIT 1
    )
  WHERE t.key = $2::bigint AND t.deleted = 3 AND ($15 IS NULL OR EXISTS (SELECT FROM parent))
  RETURNING t.key, t.project, t.user_id, t.family
), related AS (
  UPDATE threads AS t SET family = there.family, version = t.version + 1 FROM there
  WHERE t.key = $15 AND t.family IS NULL AND there.family IS NOT NULL
), pushed AS MATERIALIZED (
  SELECT coalesce(r.attempt, 1) AS attempt FROM runs r WHERE r.key = $2 AND r.fence = $5::bigint AND $6::boolean AND NOT r.driven
), turned AS (
  INSERT INTO turns (key, run, project, user_id, agent, at, check_at, attempt)
  SELECT there.key, $7::text, there.project, there.user_id, $12::text, c.now, least($9::bigint, c.now),
    coalesce((SELECT attempt FROM pushed), 1)
  FROM there
  CROSS JOIN c
  WHERE $6::boolean
), queued AS (
  INSERT INTO jobs (kind, ref, due_at)
  SELECT 'pack', there.key::text, c.now + $13::bigint FROM there CROSS JOIN c
  ON CONFLICT DO NOTHING
)
INSERT INTO heads (
  key, epoch, generation, tail, fence, driver_fence, active, run, producer_seq, lease_until, stop_at, finishing
)
SELECT there.key, $3::bigint, c.generation, $4::bigint, $5::bigint, coalesce((SELECT 1 - attempt FROM pushed), 0), $6::boolean,
  $7::text, $8::bigint, least($9::bigint, c.now), $10::bigint, $11::boolean
FROM there
CROSS JOIN c
RETURNING key
