-- Reads the writes beside checkpoints, in the order of path, task and number, with the number of the checkpoint, from 0. The value is NULL
-- where those up to this one have more bytes than wanted.
-- Caller: checkpoint_parts in src/sql/checkpoints.rs
-- $1 places text: [[key, ns, id], …]
-- $2 bytes bigint
-- example: '[[1,"","i"]]', 1000

WITH found AS (
  SELECT p.n - 1 AS n, w.key, w.ns, w.id, w.task, w.path, w.idx, w.channel, w.type,
    sum(w.size) OVER (ORDER BY p.n, w.path, w.task, w.idx ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM json_array_elements($1::text::json) WITH ORDINALITY AS p (place, n)
  CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_writes c
    WHERE c.key = (p.place ->> 0)::bigint AND c.ns = p.place ->> 1 AND c.id = p.place ->> 2 OFFSET 0
  ) AS w
)
SELECT f.n, f.task, f.path, f.idx, f.channel, f.type, b.body FROM found f
LEFT JOIN LATERAL (
  SELECT c.body FROM checkpoint_writes c
  WHERE c.key = f.key AND c.ns = f.ns AND c.id = f.id AND c.task = f.task AND c.idx = f.idx AND f.upto <= $2::bigint OFFSET 0
) AS b ON TRUE
ORDER BY f.n, f.path, f.task, f.idx
