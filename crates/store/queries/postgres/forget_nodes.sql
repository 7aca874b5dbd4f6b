-- Removes the nodes without a beat for a long time. Few rows: the number of nodes started within that time.
-- Caller: forget_nodes in src/postgres/nodes.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 age bigint: in ms
-- example: NULL, 1000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
DELETE FROM nodes USING c WHERE at <= c.now - $2::bigint
