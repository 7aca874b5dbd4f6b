-- Reads the writes beside checkpoints, in the order of path, task and number, with the number of the checkpoint, from 0. The value is NULL
-- where those up to this one have more bytes than wanted.
-- Caller: checkpoint_parts in src/sql/checkpoints.rs
-- ?1 places text: [[key, ns, id], …]
-- ?2 bytes integer
-- example: '[[1,"","i"]]', 1000

WITH found AS (
  SELECT p.key AS n, w.key, w.ns, w.id, w.task, w.path, w.idx, w.channel, w.type,
    sum(w.size) OVER (ORDER BY p.key, w.path, w.task, w.idx ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM json_each(?1) AS p
  CROSS JOIN checkpoint_writes w ON w.key = p.value ->> 0 AND w.ns = p.value ->> 1 AND w.id = p.value ->> 2
)
SELECT f.n, f.task, f.path, f.idx, f.channel, f.type, b.body FROM found f
LEFT JOIN checkpoint_writes b
  ON b.key = f.key AND b.ns = f.ns AND b.id = f.id AND b.task = f.task AND b.idx = f.idx AND f.upto <= ?2
ORDER BY f.n, f.path, f.task, f.idx
