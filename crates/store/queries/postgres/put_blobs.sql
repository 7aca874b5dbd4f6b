-- Stores blobs of checkpoints. An existing blob stays as it is. The row of the thread in agent_data is locked first, as by each statement
-- that changes which blobs are loose. Answers with a row: 0 if all are stored, 1 if the thread is gone, 2 if it would
-- have too much agent data; and the bytes that were added.
-- Caller: blobs_in in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 ns text
-- $4 places text: [[channel, version, type, start, length, size], …] in order
-- $5 bodies bytea: one behind the other
-- $6 most bigint: bytes of the thread
-- example: NULL, 1, '', '[["c","1","t",1,1,3]]', '1', 1000

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, thread AS MATERIALIZED (
  SELECT h.key FROM heads h CROSS JOIN c WHERE h.key = $2::bigint FOR KEY SHARE OF h
), asked AS MATERIALIZED (
  SELECT p ->> 0 AS channel, p ->> 1 AS version, p ->> 2 AS type,
    substr($5::bytea, (p ->> 3)::integer, (p ->> 4)::integer) AS body, (p ->> 5)::bigint AS size
  FROM json_array_elements($4::text::json) AS p
), fresh AS MATERIALIZED (
  SELECT a.* FROM asked a
  LEFT JOIN LATERAL (
    SELECT 1 AS found FROM checkpoint_blobs b
    WHERE b.key = $2 AND b.ns = $3::text AND b.channel = a.channel AND b.version = a.version OFFSET 0
  ) AS b ON TRUE
  WHERE b.found IS NULL
), data AS MATERIALIZED (
  SELECT d.bytes FROM agent_data d CROSS JOIN thread WHERE d.key = $2 FOR UPDATE OF d
), locked AS MATERIALIZED (
  SELECT count(*) AS n FROM data
), fits AS MATERIALIZED (
  SELECT c.now FROM thread
  CROSS JOIN c
  CROSS JOIN locked
  WHERE locked.n >= 0 AND (
    NOT EXISTS (SELECT 1 FROM fresh)
    OR (SELECT sum(size) FROM fresh) + coalesce((SELECT bytes FROM data), 0) <= $6::bigint
  )
), put AS (
  INSERT INTO checkpoint_blobs (key, ns, channel, version, type, body, size)
  SELECT $2, $3, f.channel, f.version, f.type, f.body, f.size FROM fresh f CROSS JOIN fits
  ON CONFLICT DO NOTHING
  RETURNING channel, version, size
), loose AS (
  INSERT INTO loose_blobs (key, ns, channel, version, at)
  SELECT $2, $3, p.channel, p.version, f.now FROM put p CROSS JOIN fits f
  ON CONFLICT (key, ns, channel, version) DO UPDATE SET at = excluded.at
), renewed AS (
  UPDATE loose_blobs l SET at = f.now FROM asked a
  CROSS JOIN fits f
  WHERE l.key = $2 AND l.ns = $3 AND l.channel = a.channel AND l.version = a.version
    AND NOT EXISTS (SELECT 1 FROM fresh r WHERE r.channel = a.channel AND r.version = a.version)
), kept AS (
  INSERT INTO agent_data AS d (key, bytes)
  SELECT $2, (SELECT coalesce(sum(size), 0) FROM put)::bigint FROM fits
  ON CONFLICT (key) DO UPDATE SET bytes = d.bytes + excluded.bytes
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM fits) THEN 0 WHEN EXISTS (SELECT 1 FROM thread) THEN 2 ELSE 1 END::bigint,
  (SELECT coalesce(sum(size), 0) FROM put)::bigint
