-- Turns a staged thread into a tombstone, which is purged at once.
-- Caller: unstage in src/postgres/staging.rs
-- $1 key bigint
-- example: 1

WITH gone AS (
  UPDATE threads SET deleted = 1 WHERE key = $1::bigint AND deleted = 3 RETURNING key, sort_at
)
UPDATE jobs AS j SET due_at = gone.sort_at FROM gone WHERE j.kind = 'purge' AND j.ref = gone.key::text
