-- Reads whether a thread has an active run, its tail, and the time since its last run began or ended.
-- Caller: idle_since in src/postgres/seal.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- example: NULL, 1

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT h.active, h.tail, c.now - coalesce(t.last_run_at, t.created_at)
FROM heads AS h
CROSS JOIN c
JOIN threads AS t ON t.key = $2
WHERE h.key = $2::bigint
