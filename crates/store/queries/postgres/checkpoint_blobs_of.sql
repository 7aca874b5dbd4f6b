-- Reads the blobs of checkpoints, in the order of their channels, with the number of the checkpoint, from 0. The value is NULL where those
-- up to this one have more bytes than wanted, and so is the type where there is no blob.
-- Caller: checkpoint_parts in src/sql/checkpoints.rs
-- $1 places text: [[key, ns, id], …]
-- $2 bytes bigint
-- example: '[[1,"","i"]]', 1000

WITH named AS MATERIALIZED (
  SELECT p.n - 1 AS n, e.n AS m, k.key, k.ns, e.pair ->> 0 AS channel, e.pair ->> 1 AS version
  FROM json_array_elements($1::text::json) WITH ORDINALITY AS p (place, n)
  CROSS JOIN LATERAL (
    SELECT checkpoints.key, checkpoints.ns, checkpoints.channels FROM checkpoints
    WHERE checkpoints.key = (p.place ->> 0)::bigint AND checkpoints.ns = p.place ->> 1 AND checkpoints.id = p.place ->> 2
    OFFSET 0
  ) AS k
  CROSS JOIN LATERAL json_array_elements(k.channels::json) WITH ORDINALITY AS e (pair, n)
), found AS (
  SELECT a.n, a.m, a.key, a.ns, a.channel, a.version, b.type,
    sum(b.size) OVER (ORDER BY a.n, a.m ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM named a
  LEFT JOIN LATERAL (
    SELECT c.type, c.size FROM checkpoint_blobs c
    WHERE c.key = a.key AND c.ns = a.ns AND c.channel = a.channel AND c.version = a.version OFFSET 0
  ) AS b ON TRUE
)
SELECT f.n, f.channel, f.version, f.type, b.body FROM found f
LEFT JOIN LATERAL (
  SELECT c.body FROM checkpoint_blobs c
  WHERE c.key = f.key AND c.ns = f.ns AND c.channel = f.channel AND c.version = f.version AND f.upto <= $2::bigint OFFSET 0
) AS b ON TRUE
ORDER BY f.n, f.m
