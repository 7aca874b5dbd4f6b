-- Writes key-value entries, all or none. The heads of threads are locked against their deletion, and the entries one after the
-- other in the order of their places. An entry that another transaction has stored since the statement began is refused by the
-- index, and the statement is repeated. Answers with a row for each write: 0 if there was no entry, 1 if there was one, 2 if it does
-- not have the tag that the write requires, 3 if the thread is gone; and the bytes that the write adds. Above 1 nothing is written.
-- Caller: write_entries in src/postgres/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text: user, or empty
-- $4 writes text: [[n, ns, key, kind, tag, start, length, size, life, thread, created_at, updated_at, expires_at, condition, last,
--   last_tag, last_start, last_length], …] with the kind 'put', 'delete' or 'touch', the value from the byte `start` of the values, '' as
--   the condition that there is no entry, and the tag and value of the last write of the entry. The life of a removal with a tag is the
--   time for which the removal is remembered
-- $5 values bytea: all of them, one behind the other
-- example: NULL, 'p', 'u', '[[0,"","k","put","t",1,1,5,null,null,null,null,null,null,1,"t",1,1]]', '1'

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
, fits AS MATERIALIZED (
  SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM held WHERE state > 1)
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
SELECT w.state,
  CASE WHEN w.last AND (w.kind = 'put' OR (w.kind = 'delete' AND w.state = 1)) THEN w.size - coalesce(w.former, 0) ELSE 0 END
FROM held w
ORDER BY w.n
