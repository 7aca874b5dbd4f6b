-- Looks at the turns whose time has come, and moves the time of each: of a run that was extended, to the end of its lease
-- or of its stop; of a run that is due, by the length of a claim, so that no other node looks at it meanwhile. Answers
-- with a row for each turn, which names the thread of a due run. The statement waits for no lock. A head is locked
-- against its removal only, and after its turn, so that the head is newer than the time that the turn had.
-- Caller: claim_due in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 grace bigint: STOP_GRACE in ms
-- $3 claim bigint: in ms
-- $4 limit bigint
-- $5 bound bigint: the latest time by which runs are judged
-- example: NULL, 10000, 2000, 10, 0

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, j AS MATERIALIZED (SELECT least(now, $5::bigint) AS now FROM c)
, taken AS MATERIALIZED (
  SELECT t.key, t.run FROM turns AS t
  WHERE t.place IS NULL AND t.check_at <= (SELECT now FROM j)
  ORDER BY t.check_at LIMIT $4::bigint FOR UPDATE SKIP LOCKED
), seen AS MATERIALIZED (
  SELECT taken.key, taken.run, least(h.lease_until, h.stop_at + $2::bigint) AS until
  FROM taken
  CROSS JOIN LATERAL (
    SELECT heads.lease_until, heads.stop_at FROM heads
    WHERE heads.key = taken.key AND heads.run = taken.run AND heads.active
    FOR KEY SHARE SKIP LOCKED
  ) AS h
), moved AS (
  UPDATE turns AS t
  SET check_at = CASE WHEN seen.until <= j.now THEN j.now + $3::bigint ELSE seen.until END
  FROM seen
  CROSS JOIN j
  WHERE t.key = seen.key AND t.run = seen.run
)
SELECT t.key, t.project, t.user_id, t.id
FROM seen
CROSS JOIN j
LEFT JOIN LATERAL (SELECT * FROM threads WHERE threads.key = seen.key AND seen.until <= j.now OFFSET 0) AS t ON TRUE
