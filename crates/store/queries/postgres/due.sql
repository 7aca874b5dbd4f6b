-- Finds runs whose lease has expired, or whose stop is overdue. A scan of the active heads.
-- Caller: due in src/postgres/runs.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 grace bigint: STOP_GRACE in ms
-- $3 limit bigint
-- example: NULL, 10000, 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT t.key, t.project, t.user_id, t.id FROM c
CROSS JOIN heads h
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key OFFSET 0) AS t
WHERE h.active AND h.key > 0 AND (h.lease_until <= c.now OR h.stop_at <= c.now - $2::bigint)
LIMIT $3
