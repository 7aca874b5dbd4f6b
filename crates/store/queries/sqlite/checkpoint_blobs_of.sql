-- Reads the blobs of checkpoints, in the order of their channels, with the number of the checkpoint, from 0. The value is NULL where those
-- up to this one have more bytes than wanted, and so is the type where there is no blob.
-- Caller: checkpoint_parts in src/sql/checkpoints.rs
-- ?1 places text: [[key, ns, id], …]
-- ?2 bytes integer
-- example: '[[1,"","i"]]', 1000

WITH named AS MATERIALIZED (
  SELECT p.key AS n, e.key AS m, k.key, k.ns, e.value ->> 0 AS channel, e.value ->> 1 AS version
  FROM json_each(?1) AS p
  CROSS JOIN checkpoints k ON k.key = p.value ->> 0 AND k.ns = p.value ->> 1 AND k.id = p.value ->> 2
  CROSS JOIN json_each(k.channels) AS e
), found AS (
  SELECT a.n, a.m, a.key, a.ns, a.channel, a.version, b.type,
    sum(b.size) OVER (ORDER BY a.n, a.m ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM named a
  LEFT JOIN checkpoint_blobs b ON b.key = a.key AND b.ns = a.ns AND b.channel = a.channel AND b.version = a.version
)
SELECT f.n, f.channel, f.version, f.type, b.body FROM found f
LEFT JOIN checkpoint_blobs b
  ON b.key = f.key AND b.ns = f.ns AND b.channel = f.channel AND b.version = f.version AND f.upto <= ?2
ORDER BY f.n, f.m
