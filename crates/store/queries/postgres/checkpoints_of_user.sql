-- Reads a page of the checkpoints of all threads of a user, the newest first.
-- Caller: checkpoints in src/sql/checkpoints.rs
-- $1 project text
-- $2 owner text: user
-- $3 below text: id,
-- $4 key bigint: thread and
-- $5 ns text: namespace behind which the page begins
-- $6 limit bigint
-- $7 bytes bigint: no further one is read once metadata and bodies have these
-- $8 data bigint: 1 if the bodies are wanted
-- example: 'p', 'u', '~', 0, '', 10, 1000, 1

SELECT k.key, t.id, k.ns, k.id, k.parent, k.run, k.type, k.own, k.metadata, k.channels, k.at FROM (
  SELECT w.*, CASE WHEN $8::bigint = 1 THEN w.body END AS own,
    sum(w.measure) OVER (ORDER BY w.id DESC, w.key DESC, w.ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.measure AS before
  FROM (
    SELECT checkpoints.*, octet_length(checkpoints.metadata) + $8::bigint * octet_length(checkpoints.body) AS measure
    FROM checkpoints
    WHERE checkpoints.project = $1::text AND checkpoints.owner = $2::text
      AND (checkpoints.id, checkpoints.key, checkpoints.ns) < ($3::text, $4::bigint, $5::text)
      AND EXISTS (SELECT 1 FROM heads h WHERE h.key = checkpoints.key OFFSET 0)
    ORDER BY checkpoints.id DESC, checkpoints.key DESC, checkpoints.ns DESC LIMIT $6::bigint
  ) AS w
) AS k
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = k.key OFFSET 0) AS t
WHERE k.before < $7::bigint
ORDER BY k.id DESC, k.key DESC, k.ns DESC
