-- Reads a page of the checkpoints of a thread, the newest first.
-- Caller: checkpoints in src/sql/checkpoints.rs
-- ?1 key integer
-- ?2 below text: id and
-- ?3 ns text: namespace behind which the page begins
-- ?4 limit integer
-- ?5 bytes integer: no further one is read once metadata and bodies have these
-- ?6 data integer: 1 if the bodies are wanted
-- example: 1, '~', '', 10, 1000, 1

SELECT k.key, t.id, k.ns, k.id, k.parent, k.run, k.type, k.own, k.metadata, k.channels, k.at FROM (
  SELECT w.*, CASE WHEN ?6 = 1 THEN w.body END AS own,
    sum(w.measure) OVER (ORDER BY w.id DESC, w.ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.measure AS before
  FROM (
    SELECT checkpoints.*, octet_length(checkpoints.metadata) + ?6 * octet_length(checkpoints.body) AS measure
    FROM checkpoints
    WHERE checkpoints.key = ?1 AND (checkpoints.id, checkpoints.ns) < (?2, ?3)
      AND EXISTS (SELECT 1 FROM heads h WHERE h.key = checkpoints.key)
    ORDER BY checkpoints.id DESC, checkpoints.ns DESC LIMIT ?4
  ) AS w
) AS k
CROSS JOIN threads t ON t.key = k.key
WHERE k.before < ?5
ORDER BY k.id DESC, k.ns DESC
