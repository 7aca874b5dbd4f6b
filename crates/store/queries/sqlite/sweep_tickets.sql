-- Removes expired tickets.
-- Caller: sweep_tickets in src/sql/tables/identity.rs
-- ?1 now integer: the time
-- ?2 limit integer
-- example: 0, 10

DELETE FROM socket_tickets
WHERE digest IN (SELECT digest FROM socket_tickets WHERE until <= ?1 ORDER BY until LIMIT ?2)
RETURNING digest
