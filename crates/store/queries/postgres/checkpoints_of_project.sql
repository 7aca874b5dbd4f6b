-- Reads a page of the checkpoints of all threads of a project, the newest first.
-- Caller: checkpoints in src/sql/checkpoints.rs
-- $1 project text
-- $2 below text: id,
-- $3 key bigint: thread and
-- $4 ns text: namespace behind which the page begins
-- $5 limit bigint
-- $6 bytes bigint: no further one is read once metadata and bodies have these
-- $7 data bigint: 1 if the bodies are wanted
-- example: 'p', '~', 0, '', 10, 1000, 1

SELECT k.key, t.id, k.ns, k.id, k.parent, k.run, k.type, k.own, k.metadata, k.channels, k.at FROM (
  SELECT w.*, CASE WHEN $7::bigint = 1 THEN w.body END AS own,
    sum(w.measure) OVER (ORDER BY w.id DESC, w.key DESC, w.ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.measure AS before
  FROM (
    SELECT checkpoints.*, octet_length(checkpoints.metadata) + $7::bigint * octet_length(checkpoints.body) AS measure
    FROM checkpoints
    WHERE checkpoints.project = $1::text
      AND (checkpoints.id, checkpoints.key, checkpoints.ns) < ($2::text, $3::bigint, $4::text)
      AND EXISTS (SELECT 1 FROM heads h WHERE h.key = checkpoints.key OFFSET 0)
    ORDER BY checkpoints.id DESC, checkpoints.key DESC, checkpoints.ns DESC LIMIT $5::bigint
  ) AS w
) AS k
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = k.key OFFSET 0) AS t
WHERE k.before < $6::bigint
ORDER BY k.id DESC, k.key DESC, k.ns DESC
