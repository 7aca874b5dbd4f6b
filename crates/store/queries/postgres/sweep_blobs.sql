-- Removes loose blobs of a namespace, unless a checkpoint names them. The row of the thread in agent_data must have the number of
-- changes that the caller has read: the statement would not see a checkpoint that was stored since. Answers with a row: 0 if it has another
-- number, and the removed bytes.
-- Caller: sweep_step in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 changes bigint
-- $4 ns text
-- $5 age bigint: in ms
-- $6 limit bigint
-- example: NULL, 1, 0, '', 3600000, 10

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, data AS MATERIALIZED (
  SELECT d.key, c.now FROM agent_data d CROSS JOIN c WHERE d.key = $2::bigint AND d.changes = $3::bigint FOR UPDATE OF d
), old AS MATERIALIZED (
  SELECT l.channel, l.version FROM data
  CROSS JOIN LATERAL (
    SELECT * FROM loose_blobs
    WHERE loose_blobs.key = data.key AND loose_blobs.ns = $4::text AND loose_blobs.at <= data.now - $5::bigint LIMIT $6::bigint
  ) AS l
), named AS MATERIALIZED (
  SELECT DISTINCT e ->> 0 AS channel, e ->> 1 AS version FROM data
  CROSS JOIN LATERAL (SELECT * FROM checkpoints WHERE checkpoints.key = data.key AND checkpoints.ns = $4 OFFSET 0) AS k
  CROSS JOIN LATERAL json_array_elements(k.channels::json) AS e
), forgotten AS (
  DELETE FROM loose_blobs l USING old o WHERE l.key = $2 AND l.ns = $4 AND l.channel = o.channel AND l.version = o.version
), gone AS (
  DELETE FROM checkpoint_blobs b USING old o
  WHERE b.key = $2 AND b.ns = $4 AND b.channel = o.channel AND b.version = o.version
    AND (o.channel, o.version) NOT IN (SELECT n.channel, n.version FROM named n)
  RETURNING b.size
), sums AS MATERIALIZED (
  SELECT coalesce(sum(size), 0)::bigint AS bytes FROM gone
), kept AS (
  UPDATE agent_data d SET bytes = d.bytes - s.bytes, changes = d.changes + 1 FROM sums s
  WHERE d.key = $2 AND EXISTS (SELECT 1 FROM data)
)
SELECT (SELECT count(*) FROM data), (SELECT bytes FROM sums)
