-- Reads a page of the key-value entries of all owners, with the threads that they go with, for an export.
-- Caller: all_kv in src/sql/kv.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 owner text
-- ?4 ns text
-- ?5 key text: of the place after which the page begins
-- ?6 limit integer
-- ?7 bytes integer: entries are read in order until their values reach these
-- example: 0, '', '', '', '', 10, 1000

WITH page AS (
  SELECT w.place, sum(w.size) OVER (
    ORDER BY w.project, w.owner, w.ns, w.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  ) - w.size AS before
  FROM (
    SELECT kv.rowid AS place, kv.project, kv.owner, kv.ns, kv.key, kv.size FROM kv
    WHERE (kv.project, kv.owner, kv.ns, kv.key) > (?2, ?3, ?4, ?5)
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > ?1)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread))
      -- </fragment>
    ORDER BY kv.project, kv.owner, kv.ns, kv.key LIMIT ?6
  ) AS w
)
SELECT k.project, k.owner, k.ns, k.key, k.tag, k.created_at, k.updated_at, k.expires_at, k.value, t.user, t.id, k.life
FROM page p
CROSS JOIN kv k ON k.rowid = p.place
LEFT JOIN threads t ON t.key = k.thread
WHERE p.before < ?7
ORDER BY k.project, k.owner, k.ns, k.key
