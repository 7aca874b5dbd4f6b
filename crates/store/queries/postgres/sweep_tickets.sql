-- Removes expired tickets. Those that another node has locked are skipped.
-- Caller: sweep_tickets in src/sql/tables/identity.rs
-- $1 now bigint: the time
-- $2 limit bigint
-- example: 500, 10

WITH old AS MATERIALIZED (
  SELECT digest FROM socket_tickets WHERE until <= $1::bigint ORDER BY until LIMIT $2::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM socket_tickets
WHERE digest = ANY (ARRAY(SELECT digest FROM old))
RETURNING digest
