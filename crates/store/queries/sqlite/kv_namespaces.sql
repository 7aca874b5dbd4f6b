-- Reads a page of the namespaces that have key-value entries, in order. Each step finds the next namespace in the index, whatever the
-- number of its entries.
-- Caller: kv_namespaces in src/sql/kv.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 owner text: user, or empty
-- ?4 from text: least namespace
-- ?5 end text: that all namespaces are less than
-- ?6 limit integer
-- example: 0, 'p', 'u', '', '~', 10

WITH RECURSIVE found (ns, n) AS (
  SELECT (
    SELECT kv.ns FROM kv
    WHERE kv.project = ?2 AND kv.owner = ?3 AND kv.ns >= ?4 AND kv.ns < ?5
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > ?1)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread))
      -- </fragment>
    ORDER BY kv.ns LIMIT 1
  ), 1
  UNION ALL
  SELECT (
    SELECT kv.ns FROM kv
    WHERE kv.project = ?2 AND kv.owner = ?3 AND kv.ns > found.ns AND kv.ns < ?5
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > ?1)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread))
      -- </fragment>
    ORDER BY kv.ns LIMIT 1
  ), found.n + 1
  FROM found
  WHERE found.ns IS NOT NULL AND found.n < ?6
)
SELECT found.ns FROM found WHERE found.ns IS NOT NULL ORDER BY found.n
