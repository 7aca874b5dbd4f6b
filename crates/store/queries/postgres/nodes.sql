-- Nodes, those with the newest beats first. Each row begins with the time of the store's clock.
-- Caller: nodes in src/postgres/nodes.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 limit bigint
-- example: NULL, 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT c.now, n.id, n.name, n.version, n.started_at, n.beat, n.at, n.leaving, n.skew_ms, n.rtt_us, n.step_ms
FROM nodes n CROSS JOIN c
ORDER BY n.at DESC, n.id
LIMIT $2::bigint
