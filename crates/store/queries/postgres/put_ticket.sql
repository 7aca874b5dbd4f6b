-- Stores a ticket, and removes a few expired ones. Other nodes may be removing the same: locked ones are skipped, so
-- that no node waits for another.
-- Caller: put_ticket in src/sql/tables/identity.rs
-- $1 digest bytea
-- $2 bearer text
-- $3 until bigint
-- $4 now bigint: the time
-- $5 limit bigint
-- example: '\x01', 'b', 1000, 500, 10

WITH old AS MATERIALIZED (
  SELECT digest FROM socket_tickets
  WHERE until <= $4::bigint AND digest <> $1::bytea
  ORDER BY until LIMIT $5::bigint FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM socket_tickets WHERE digest = ANY (ARRAY(SELECT digest FROM old))
)
INSERT INTO socket_tickets (digest, bearer, until)
VALUES ($1, $2::text, $3::bigint)
ON CONFLICT (digest) DO UPDATE SET bearer = excluded.bearer, until = excluded.until
