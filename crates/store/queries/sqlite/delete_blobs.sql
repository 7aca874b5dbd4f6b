-- Removes blobs of a thread that no checkpoint names.
-- Caller: delete in src/sqlite/checkpoints.rs
-- ?1 key integer
-- ?2 ns text: or NULL for all
-- ?3 dropped text: [[ns, channel, version], …], or NULL for all
-- example: 1, NULL, '[["","c","1"]]'

WITH named AS MATERIALIZED (
  SELECT DISTINCT k.ns, e.value ->> 0 AS channel, e.value ->> 1 AS version
  FROM checkpoints k
  CROSS JOIN json_each(k.channels) AS e
  WHERE k.key = ?1 AND (?2 IS NULL OR k.ns = ?2)
)
DELETE FROM checkpoint_blobs
WHERE key = ?1 AND (?2 IS NULL OR ns = ?2)
  AND (?3 IS NULL OR (ns, channel, version) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?3)))
  AND (ns, channel, version) NOT IN (SELECT ns, channel, version FROM named)
RETURNING size
