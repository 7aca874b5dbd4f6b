-- Stores a checkpoint, if each of its channels has its blob. The row of the agent data of the thread is locked first: a deletion of checkpoints
-- does so too, and blobs that it removes are missing here. A checkpoint that another transaction has stored since is refused by its index.
-- Answers with a row: 0 if it is stored, 1 if the thread is gone, 2 if it would have too much agent data, 3 if a blob is missing; the
-- bytes that were added; and the number of the channel, from 1.
-- Caller: checkpoint_in in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 ns text
-- $4 id text
-- $5 parent text
-- $6 run text
-- $7 type text
-- $8 body bytea
-- $9 metadata bytea
-- $10 channels text: [[channel, version], …]
-- $11 size bigint
-- $12 most bigint: bytes of the thread
-- $13 first_at bigint: time of a checkpoint that is moved, which replaces none; or NULL
-- example: NULL, 1, '', 'i', NULL, NULL, 't', '', '{}', '[["c","1"]]', 10, 1000, NULL

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, thread AS MATERIALIZED (
  SELECT h.key, t.project, t.user_id FROM heads h
  CROSS JOIN c
  CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key OFFSET 0) AS t
  WHERE h.key = $2::bigint FOR KEY SHARE OF h
), data AS MATERIALIZED (
  SELECT d.bytes FROM agent_data d CROSS JOIN thread WHERE d.key = $2 FOR UPDATE OF d
), locked AS MATERIALIZED (
  SELECT count(*) AS n FROM data
), former AS MATERIALIZED (
  SELECT k.size, k.channels FROM checkpoints k
  CROSS JOIN locked
  WHERE k.key = $2 AND k.ns = $3::text AND k.id = $4::text AND locked.n >= 0
  FOR UPDATE OF k
), missing AS MATERIALIZED (
  SELECT min(e.n) AS n FROM json_array_elements($10::text::json) WITH ORDINALITY AS e (pair, n)
  CROSS JOIN locked
  LEFT JOIN LATERAL (
    SELECT 1 AS found FROM checkpoint_blobs b
    WHERE b.key = $2 AND b.ns = $3 AND b.channel = e.pair ->> 0 AND b.version = e.pair ->> 1 AND locked.n >= 0
    FOR KEY SHARE
  ) AS b ON TRUE
  WHERE b.found IS NULL
), room AS MATERIALIZED (
  SELECT coalesce((SELECT bytes FROM data), 0) + $11::bigint - coalesce((SELECT size FROM former), 0) <= $12::bigint
    OR $11 <= coalesce((SELECT size FROM former), 0) AS enough
), fits AS MATERIALIZED (
  SELECT t.project, t.user_id, c.now FROM thread t
  CROSS JOIN c
  WHERE (SELECT n FROM missing) IS NULL AND (SELECT enough FROM room)
    AND ($13::bigint IS NULL OR NOT EXISTS (SELECT 1 FROM former))
), put AS (
  INSERT INTO checkpoints (key, ns, id, project, owner, parent, run, type, body, metadata, channels, size, at)
  SELECT $2, $3, $4, f.project, f.user_id, $5::text, $6::text, $7::text, $8::bytea, $9::bytea, $10, $11, coalesce($13, f.now)
  FROM fits f WHERE NOT EXISTS (SELECT 1 FROM former)
), replaced AS (
  UPDATE checkpoints k SET parent = $5, run = $6, type = $7, body = $8, metadata = $9, channels = $10, size = $11
  FROM fits WHERE k.key = $2 AND k.ns = $3 AND k.id = $4 AND EXISTS (SELECT 1 FROM former)
), named AS MATERIALIZED (
  SELECT e ->> 0 AS channel, e ->> 1 AS version FROM fits
  CROSS JOIN json_array_elements($10::text::json) AS e
), dropped AS MATERIALIZED (
  SELECT DISTINCT e ->> 0 AS channel, e ->> 1 AS version FROM fits
  CROSS JOIN former f
  CROSS JOIN json_array_elements(f.channels::json) AS e
), fixed AS (
  DELETE FROM loose_blobs l USING named n WHERE l.key = $2 AND l.ns = $3 AND l.channel = n.channel AND l.version = n.version
), loosened AS (
  INSERT INTO loose_blobs (key, ns, channel, version, at)
  SELECT $2, $3, d.channel, d.version, c.now FROM dropped d
  CROSS JOIN c
  WHERE (d.channel, d.version) NOT IN (SELECT n.channel, n.version FROM named n)
  ON CONFLICT (key, ns, channel, version) DO UPDATE SET at = excluded.at
), kept AS (
  INSERT INTO agent_data AS d (key, bytes, changes)
  SELECT $2, $11 - coalesce((SELECT size FROM former), 0), 1 FROM fits
  ON CONFLICT (key) DO UPDATE SET bytes = d.bytes + excluded.bytes, changes = d.changes + 1
)
SELECT CASE
    WHEN NOT EXISTS (SELECT 1 FROM thread) THEN 1
    WHEN (SELECT n FROM missing) IS NOT NULL THEN 3
    WHEN $13 IS NOT NULL AND EXISTS (SELECT 1 FROM former) THEN 0
    WHEN NOT (SELECT enough FROM room) THEN 2
    ELSE 0
  END::bigint, CASE WHEN EXISTS (SELECT 1 FROM fits) THEN $11 - coalesce((SELECT size FROM former), 0) ELSE 0 END::bigint,
  (SELECT n FROM missing)
