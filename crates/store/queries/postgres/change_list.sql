-- Changes an item list, and writes key-value entries in the same commit: all, or nothing. The head of the thread is locked against its
-- deletion, and the list against other changes; it must have the tag that the caller has read, and so must the list that is copied
-- from. A list, or a key of an operation, that another transaction has stored since is refused by its index. Answers with a row for each
-- write of an entry, as put_kv.sql does, and one of -1 if the list was changed, or -2 if it was not.
-- Caller: commit_change in src/postgres/items.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text: of the entries
-- $3 owner text: of the entries
-- $4 writes text: of entries
-- $5 values bytea: of entries
-- $6 key bigint: of the thread
-- $7 list text
-- $8 former text: tag of the list, or NULL if there is none
-- $9 tag text: the new one
-- $10 count bigint: of the items then
-- $11 next_pos bigint: then
-- $12 op text: key of the operation
-- $13 digest bytea
-- $14 answer text
-- $15 gone_from bigint: position from which items are removed, or NULL
-- $16 places text: [[pos, start, length, size], …] of the items that are added
-- $17 bodies bytea: of these items, one behind the other
-- $18 added bigint: bytes
-- $19 source bigint: key of the thread that is copied from, or NULL
-- $20 source_list text
-- $21 source_tag text
-- $22 upto bigint: last position that is copied
-- $23 first_pos bigint: of the copied items
-- $24 op_size bigint: counted bytes of the operation
-- example: NULL, 'p', 'u', '[]', '', 1, 'l', NULL, 't', 1, 2, 'o', '', '', NULL, '[[1,1,1,1]]', '1', 1, NULL, NULL, NULL, NULL, NULL, 1

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
-- <fragment kv_writes>
, asked AS MATERIALIZED (
  SELECT (w ->> 0)::bigint AS n, w ->> 1 AS ns, w ->> 2 AS key, w ->> 3 AS kind, w ->> 4 AS tag,
    substr($5::bytea, (w ->> 5)::integer, (w ->> 6)::integer) AS value, (w ->> 7)::bigint AS size, (w ->> 8)::bigint AS life,
    (w ->> 9)::bigint AS thread, (w ->> 10)::bigint AS created_at, (w ->> 11)::bigint AS updated_at,
    (w ->> 12)::bigint AS expires_at, w ->> 13 AS condition, (w ->> 14)::bigint > 0 AS last, w ->> 15 AS last_tag,
    (w ->> 16)::integer AS last_start, (w ->> 17)::integer AS last_length
  FROM json_array_elements($4::text::json) AS w
  ORDER BY w ->> 1, w ->> 2
), held AS MATERIALIZED (
  SELECT a.*, k.size AS former, k.first_at,
    CASE
      WHEN a.thread IS NOT NULL AND t.key IS NULL THEN 3
      WHEN a.last_start IS NULL AND k.removed AND k.tag IS NOT DISTINCT FROM a.last_tag THEN 1
      WHEN a.condition IS NOT NULL AND a.condition <> coalesce(CASE WHEN k.live THEN k.tag END, '') AND NOT (
        a.last_start IS NOT NULL AND k.live IS TRUE AND k.tag = a.last_tag
        AND k.value = substr($5, a.last_start, a.last_length)
      ) THEN 2
      WHEN k.live THEN 1
      ELSE 0
    END::bigint AS state
  FROM asked a
  CROSS JOIN c
  LEFT JOIN LATERAL (SELECT h.key FROM heads h WHERE h.key = a.thread FOR KEY SHARE) AS t ON TRUE
  LEFT JOIN LATERAL (
    SELECT e.tag, e.value, e.size, e.created_at AS first_at, e.removed_until IS NOT NULL AS removed,
      (e.expires_at IS NULL OR e.expires_at > c.now)
      AND (e.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = e.thread OFFSET 0)) AS live
    FROM kv e WHERE e.project = $2::text AND e.owner = $3::text AND e.ns = a.ns AND e.key = a.key FOR UPDATE
  ) AS k ON TRUE
)
-- </fragment>
, thread AS MATERIALIZED (
  SELECT h.key FROM heads h WHERE h.key = $6::bigint FOR KEY SHARE
), list AS MATERIALIZED (
  SELECT l.tag FROM item_lists l WHERE l.key = $6 AND l.list = $7::text FOR UPDATE
), source AS MATERIALIZED (
  SELECT l.tag FROM item_lists l WHERE l.key = $19::bigint AND l.list = $20::text AND l.tag = $21::text FOR SHARE
), fits AS MATERIALIZED (
  SELECT 1 FROM thread
  WHERE NOT EXISTS (SELECT 1 FROM held WHERE state > 1) AND (SELECT tag FROM list) IS NOT DISTINCT FROM $8::text
    AND ($19 IS NULL OR EXISTS (SELECT 1 FROM source))
)
-- <fragment kv_stored>
, kv_gone AS (
  DELETE FROM kv USING held w CROSS JOIN fits
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.kind = 'delete' AND w.tag IS NULL
    AND w.state = 1
), kv_removed AS (
  -- An expiry in the past hides the entry from all readers.
  UPDATE kv SET value = '', size = w.size, tag = w.tag, removed_until = c.now + w.life, expires_at = 0
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.kind = 'delete' AND w.tag IS NOT NULL
    AND w.state = 1
), kv_touched AS (
  UPDATE kv SET life = coalesce(w.life, kv.life), expires_at = c.now + coalesce(w.life, kv.life)
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.kind = 'touch' AND w.state = 1
), kv_changed AS (
  UPDATE kv SET value = w.value, size = w.size, tag = w.tag, thread = w.thread,
    created_at = coalesce(w.created_at, CASE WHEN w.state = 1 THEN w.first_at ELSE c.now END),
    updated_at = coalesce(w.updated_at, c.now), expires_at = coalesce(w.expires_at, c.now + w.life), life = w.life,
    removed_until = NULL
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.kind = 'put'
    AND w.former IS NOT NULL
), kv_put AS (
  INSERT INTO kv (project, owner, ns, key, value, size, tag, thread, created_at, updated_at, expires_at, life)
  SELECT $2, $3, w.ns, w.key, w.value, w.size, w.tag, w.thread, coalesce(w.created_at, c.now),
    coalesce(w.updated_at, c.now), coalesce(w.expires_at, c.now + w.life), w.life
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE w.last AND w.kind = 'put' AND w.former IS NULL
)
-- </fragment>
, list_put AS (
  INSERT INTO item_lists (key, list, tag, count, next_pos)
  SELECT $6, $7, $9::text, $10::bigint, $11::bigint FROM fits WHERE $8 IS NULL
), list_changed AS (
  UPDATE item_lists l SET tag = $9, count = $10, next_pos = $11 FROM fits WHERE l.key = $6 AND l.list = $7 AND $8 IS NOT NULL
), noted AS (
  INSERT INTO item_ops (key, list, op, digest, answer, size, at)
  SELECT $6, $7, $12::text, $13::bytea, $14::text, $24::bigint, c.now FROM fits
  CROSS JOIN c
), removed AS (
  UPDATE items i SET gone_at = c.now, gone_by = $9 FROM fits
  CROSS JOIN c
  WHERE i.key = $6 AND i.list = $7 AND i.pos >= $15::bigint AND i.gone_at IS NULL
), put AS (
  INSERT INTO items (key, list, pos, size, body)
  SELECT $6, $7, (p ->> 0)::bigint, (p ->> 3)::bigint, substr($17::bytea, (p ->> 1)::integer, (p ->> 2)::integer)
  FROM json_array_elements($16::text::json) AS p
  CROSS JOIN fits
), copied AS (
  INSERT INTO items (key, list, pos, size, body)
  SELECT $6, $7, $23::bigint - 1 + row_number() OVER (ORDER BY i.pos), i.size + octet_length($7) - octet_length($20), i.body
  FROM items i
  CROSS JOIN fits
  WHERE i.key = $19 AND i.list = $20 AND i.gone_at IS NULL AND i.pos <= $22::bigint
), kept AS (
  INSERT INTO agent_data AS d (key, bytes)
  SELECT $6, $18::bigint FROM fits
  ON CONFLICT (key) DO UPDATE SET bytes = d.bytes + excluded.bytes
)
SELECT w.state, CASE WHEN w.last AND (w.kind = 'put' OR (w.kind = 'delete' AND w.state = 1)) THEN w.size - coalesce(w.former, 0) ELSE 0 END, w.n
FROM held w
UNION ALL
SELECT CASE WHEN EXISTS (SELECT 1 FROM fits) THEN -1 ELSE -2 END, 0, 1000000
ORDER BY 3
