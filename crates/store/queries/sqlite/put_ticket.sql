-- Removes a few expired tickets, and stores one.
-- Caller: put_ticket in src/sql/tables/identity.rs
-- ?1 digest blob
-- ?2 bearer text
-- ?3 until integer
-- ?4 now integer: the time
-- ?5 limit integer
-- example: x'01', 'b', 1000, 0, 10

DELETE FROM socket_tickets
WHERE digest IN (SELECT digest FROM socket_tickets WHERE until <= ?4 ORDER BY until LIMIT ?5);
INSERT OR REPLACE INTO socket_tickets (digest, bearer, until) VALUES (?1, ?2, ?3)
