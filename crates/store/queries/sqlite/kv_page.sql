-- Reads a page of the key-value entries of an owner within a range of namespaces, in the order of their places.
-- Caller: kv_page in src/sql/kv.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 owner text: user, or empty
-- ?4 after_ns text: namespace and
-- ?5 after_key text: key after which the page begins
-- ?6 end text: that all namespaces are less than
-- ?7 limit integer
-- ?8 bytes integer: entries are read in order until their values reach these
-- example: 0, 'p', 'u', '', '', '~', 10, 1000

WITH page AS (
  SELECT w.place,
    sum(w.size) OVER (ORDER BY w.ns, w.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT kv.rowid AS place, kv.ns, kv.key, kv.size FROM kv
    WHERE kv.project = ?2 AND kv.owner = ?3 AND (kv.ns, kv.key) > (?4, ?5) AND kv.ns < ?6
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > ?1)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread))
      -- </fragment>
    ORDER BY kv.ns, kv.key LIMIT ?7
  ) AS w
)
SELECT k.ns, k.key, k.tag, k.created_at, k.updated_at, k.expires_at, k.value
FROM page p
CROSS JOIN kv k ON k.rowid = p.place
WHERE p.before < ?8
ORDER BY k.ns, k.key
