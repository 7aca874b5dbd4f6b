-- Removes a chunk of the checkpoints of a thread with their writes, and blobs that no other checkpoint names. The row of the agent data must have
-- the number of changes that the caller has read before: a checkpoint that was stored since is not seen here, and might name a blob
-- that would be removed. Answers with a row: 0 if that is not so, the number of checkpoints, and the bytes.
-- Caller: delete_step in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 changes bigint
-- $4 ns text: or NULL for all
-- $5 ids text: a JSON array, or NULL for all
-- $6 limit bigint
-- example: NULL, 1, 0, NULL, '["i"]', 10

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, data AS MATERIALIZED (
  SELECT d.key FROM agent_data d CROSS JOIN c WHERE d.key = $2::bigint AND d.changes = $3::bigint FOR UPDATE OF d
), doomed AS MATERIALIZED (
  SELECT k.ns, k.id, k.channels, k.size FROM data
  CROSS JOIN LATERAL (
    SELECT * FROM checkpoints
    WHERE checkpoints.key = data.key AND ($4::text IS NULL OR checkpoints.ns = $4)
      AND ($5::text IS NULL OR checkpoints.id IN (SELECT json_array_elements_text($5::json)))
    ORDER BY checkpoints.ns, checkpoints.id LIMIT $6::bigint
  ) AS k
), named AS MATERIALIZED (
  SELECT DISTINCT k.ns, e ->> 0 AS channel, e ->> 1 AS version FROM data
  CROSS JOIN LATERAL (
    SELECT * FROM checkpoints WHERE checkpoints.key = data.key AND ($4 IS NULL OR checkpoints.ns = $4) OFFSET 0
  ) AS k
  CROSS JOIN LATERAL json_array_elements(k.channels::json) AS e
  WHERE (k.ns, k.id) NOT IN (SELECT d.ns, d.id FROM doomed d)
), dropped AS MATERIALIZED (
  SELECT DISTINCT d.ns, e ->> 0 AS channel, e ->> 1 AS version FROM doomed d
  CROSS JOIN LATERAL json_array_elements(d.channels::json) AS e
  WHERE $5 IS NOT NULL
  UNION ALL
  SELECT b.ns, b.channel, b.version FROM data
  CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_blobs
    WHERE checkpoint_blobs.key = data.key AND ($4 IS NULL OR checkpoint_blobs.ns = $4) AND $5 IS NULL OFFSET 0
  ) AS b
), gone AS (
  DELETE FROM checkpoints k USING doomed d WHERE k.key = $2 AND k.ns = d.ns AND k.id = d.id RETURNING k.size
), over AS MATERIALIZED (
  SELECT w.ns, w.id, w.task, w.idx FROM data
  CROSS JOIN LATERAL (
    SELECT * FROM checkpoint_writes
    WHERE checkpoint_writes.key = data.key AND ($4 IS NULL OR checkpoint_writes.ns = $4)
      AND ($5 IS NULL OR checkpoint_writes.id IN (SELECT json_array_elements_text($5::json)))
    OFFSET 0
  ) AS w
  LEFT JOIN LATERAL (
    SELECT 1 AS found FROM checkpoints
    WHERE checkpoints.key = $2 AND checkpoints.ns = w.ns AND checkpoints.id = w.id OFFSET 0
  ) AS k ON TRUE
  WHERE k.found IS NULL OR (w.ns, w.id) IN (SELECT d.ns, d.id FROM doomed d)
), writes_gone AS (
  DELETE FROM checkpoint_writes w USING over o
  WHERE w.key = $2 AND w.ns = o.ns AND w.id = o.id AND w.task = o.task AND w.idx = o.idx RETURNING w.size
), blobs_gone AS (
  DELETE FROM checkpoint_blobs b USING dropped d
  WHERE b.key = $2 AND b.ns = d.ns AND b.channel = d.channel AND b.version = d.version
    AND (d.ns, d.channel, d.version) NOT IN (SELECT n.ns, n.channel, n.version FROM named n)
  RETURNING b.size
), sums AS MATERIALIZED (
  SELECT coalesce(sum(s.size), 0)::bigint AS bytes
  FROM (SELECT size FROM gone UNION ALL SELECT size FROM writes_gone UNION ALL SELECT size FROM blobs_gone) AS s
), kept AS (
  UPDATE agent_data d SET bytes = d.bytes - s.bytes, changes = d.changes + 1
  FROM sums s
  WHERE d.key = $2 AND EXISTS (SELECT 1 FROM data)
)
SELECT (SELECT count(*) FROM data), (SELECT count(*) FROM gone), (SELECT bytes FROM sums)
