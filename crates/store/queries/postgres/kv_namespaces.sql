-- Reads a page of the namespaces that have key-value entries, in order. Each step finds the next namespace in the index, whatever the
-- number of its entries.
-- Caller: kv_namespaces in src/sql/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text: user, or empty
-- $4 from text: least namespace
-- $5 end text: that all namespaces are less than
-- $6 limit bigint
-- example: NULL, 'p', 'u', '', '~', 10

WITH RECURSIVE
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, found (ns, n) AS (
  SELECT (
    SELECT kv.ns FROM kv
    CROSS JOIN c
    WHERE kv.project = $2::text AND kv.owner = $3::text AND kv.ns >= $4::text AND kv.ns < $5::text
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > c.now)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread OFFSET 0))
      -- </fragment>
    ORDER BY kv.ns LIMIT 1
  ), 1
  UNION ALL
  SELECT (
    SELECT kv.ns FROM kv
    CROSS JOIN c
    WHERE kv.project = $2::text AND kv.owner = $3::text AND kv.ns > found.ns AND kv.ns < $5::text
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > c.now)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread OFFSET 0))
      -- </fragment>
    ORDER BY kv.ns LIMIT 1
  ), found.n + 1
  FROM found
  WHERE found.ns IS NOT NULL AND found.n < $6::bigint
)
SELECT found.ns FROM found WHERE found.ns IS NOT NULL ORDER BY found.n
