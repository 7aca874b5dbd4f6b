-- Removes a few expired tickets, and stores one.
-- Caller: put_ticket in src/sqlite/identity.rs
-- ?1 now integer: the time
-- ?2 limit integer
-- ?3 digest blob
-- ?4 bearer text
-- ?5 until integer
-- example: 0, 10, x'01', 'b', 1000

DELETE FROM socket_tickets
WHERE digest IN (SELECT digest FROM socket_tickets WHERE until <= ?1 ORDER BY until LIMIT ?2);
INSERT OR REPLACE INTO socket_tickets (digest, bearer, until) VALUES (?3, ?4, ?5)
