-- Forgets deletions of threads that were created with an idempotency key, once no retry of the creation is expected.
-- Caller: purge in src/postgres/threads.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 kept bigint: REQUEST_KEPT in ms
-- $3 limit bigint
-- example: NULL, 1000, 10

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, old AS MATERIALIZED (
  SELECT project, thread FROM deleted_requests
  WHERE at <= (SELECT now - $2::bigint FROM c)
  ORDER BY at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM deleted_requests AS r USING old WHERE r.project = old.project AND r.thread = old.thread
