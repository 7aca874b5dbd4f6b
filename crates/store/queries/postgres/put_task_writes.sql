-- Stores writes of a task beside a checkpoint. One with a number from 0 that is there stays, one below 0 is replaced. A write that another
-- transaction has stored since is refused by its index. Answers with a row: 0 if all are stored, 1 if the thread is gone, 2 if it would
-- have too much agent data; and the bytes that were added.
-- Caller: writes_in in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 ns text
-- $4 id text
-- $5 task text
-- $6 path text
-- $7 places text: [[idx, channel, type, start, length, size], …] in order
-- $8 bodies bytea: one behind the other
-- $9 most bigint: bytes of the thread
-- example: NULL, 1, '', 'i', 'k', '', '[[0,"c","t",1,1,3]]', '1', 1000

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
  SELECT (p ->> 0)::bigint AS idx, p ->> 1 AS channel, p ->> 2 AS type,
    substr($8::bytea, (p ->> 3)::integer, (p ->> 4)::integer) AS body, (p ->> 5)::bigint AS size
  FROM json_array_elements($7::text::json) AS p
), held AS MATERIALIZED (
  SELECT a.*, w.size AS former FROM asked a
  CROSS JOIN thread
  LEFT JOIN LATERAL (
    SELECT w.size FROM checkpoint_writes w
    WHERE w.key = $2 AND w.ns = $3::text AND w.id = $4::text AND w.task = $5::text AND w.idx = a.idx FOR UPDATE
  ) AS w ON TRUE
), more AS MATERIALIZED (
  SELECT coalesce(sum(size - coalesce(former, 0)), 0)::bigint AS bytes FROM held WHERE former IS NULL OR idx < 0
), fits AS MATERIALIZED (
  SELECT m.bytes FROM thread
  CROSS JOIN more m
  WHERE m.bytes <= 0 OR m.bytes + coalesce((SELECT d.bytes FROM agent_data d WHERE d.key = $2), 0) <= $9::bigint
), replaced AS (
  UPDATE checkpoint_writes w SET path = $6::text, channel = h.channel, type = h.type, body = h.body, size = h.size
  FROM held h
  CROSS JOIN fits
  WHERE w.key = $2 AND w.ns = $3 AND w.id = $4 AND w.task = $5 AND w.idx = h.idx AND h.idx < 0 AND h.former IS NOT NULL
), put AS (
  INSERT INTO checkpoint_writes (key, ns, id, task, idx, path, channel, type, body, size)
  SELECT $2, $3, $4, $5, h.idx, $6, h.channel, h.type, h.body, h.size FROM held h CROSS JOIN fits WHERE h.former IS NULL
), kept AS (
  INSERT INTO agent_data AS d (key, bytes)
  SELECT $2, f.bytes FROM fits f
  ON CONFLICT (key) DO UPDATE SET bytes = d.bytes + excluded.bytes
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM fits) THEN 0 WHEN EXISTS (SELECT 1 FROM thread) THEN 2 ELSE 1 END::bigint,
  coalesce((SELECT bytes FROM fits), 0)
