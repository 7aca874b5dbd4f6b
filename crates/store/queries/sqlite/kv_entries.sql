-- Reads key-value entries by their places. The number of the place, from 1, comes first; the value is NULL where the values up to
-- this one have more bytes than wanted.
-- Caller: kv_entries in src/sql/kv.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 owner text: user, or empty
-- ?4 places text: [[ns, key], …]
-- ?5 bytes integer: of all values
-- example: 0, 'p', 'u', '[["","k"]]', 1000

WITH found AS (
  SELECT a.key + 1 AS n, kv.rowid AS place,
    sum(kv.size) OVER (ORDER BY a.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM json_each(?4) AS a
  CROSS JOIN kv
  WHERE kv.project = ?2 AND kv.owner = ?3 AND kv.ns = a.value ->> 0 AND kv.key = a.value ->> 1
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > ?1)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread))
      -- </fragment>
)
SELECT f.n, k.ns, k.key, k.tag, k.created_at, k.updated_at, k.expires_at, CASE WHEN f.upto <= ?5 THEN k.value END
FROM found f
CROSS JOIN kv k ON k.rowid = f.place
ORDER BY f.n
