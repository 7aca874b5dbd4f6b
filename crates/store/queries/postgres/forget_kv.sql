-- Removes a chunk of the key-value entries of a user who is erased, a row for each. Entries that another node has locked are left for
-- the next call.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- $1 project text
-- $2 user text
-- $3 limit bigint
-- example: 'p', 'u', 10

WITH chunk AS MATERIALIZED (
  SELECT ns, key FROM kv WHERE project = $1::text AND owner = $2::text
  ORDER BY ns, key LIMIT $3::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM kv USING chunk k
WHERE kv.project = $1 AND kv.owner = $2 AND kv.ns = k.ns AND kv.key = k.key
RETURNING kv.key
