-- Writes key-value entries, all or none. The heads of threads are locked against their deletion, and the entries one after the
-- other in the order of their places. An entry that another transaction has stored since the statement began is refused by the
-- index, and the statement is repeated. Answers with a row for each write: 0 if there was no entry, 1 if there was one, 2 if it does
-- not have the tag that the write requires, 3 if the thread is gone; and the bytes that the write adds. Above 1 nothing is written.
-- Caller: write_entries in src/postgres/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text: user, or empty
-- $4 writes text: [[n, ns, key, tag, start, length, life, thread, created_at, updated_at, expires_at, condition, last, size], …] with a tag of
--   NULL for a removal, the value from the byte `start` of the values, and '' as the condition that there is no entry
-- $5 values bytea: all of them, one behind the other
-- example: NULL, 'p', 'u', '[[0,"","k","t",1,1,null,null,null,null,null,null,1,5]]', '1'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
-- <fragment kv_writes>
, asked AS MATERIALIZED (
  SELECT (w ->> 0)::bigint AS n, w ->> 1 AS ns, w ->> 2 AS key, w ->> 3 AS tag,
    substr($5::bytea, (w ->> 4)::integer, (w ->> 5)::integer) AS value, (w ->> 13)::bigint AS size, (w ->> 6)::bigint AS life,
    (w ->> 7)::bigint AS thread, (w ->> 8)::bigint AS created_at, (w ->> 9)::bigint AS updated_at,
    (w ->> 10)::bigint AS expires_at, w ->> 11 AS condition, (w ->> 12)::bigint > 0 AS last
  FROM json_array_elements($4::text::json) AS w
  ORDER BY w ->> 1, w ->> 2
), held AS MATERIALIZED (
  SELECT a.*, k.size AS former, k.first_at,
    CASE
      WHEN a.thread IS NOT NULL AND t.key IS NULL THEN 3
      WHEN NOT (
        a.condition IS NULL OR (a.condition = '' AND k.live IS NOT TRUE)
        OR (k.live IS TRUE AND (k.tag = a.condition OR (a.tag IS NOT NULL AND k.tag = a.tag AND k.value = a.value)))
      ) THEN 2
      WHEN k.live THEN 1
      ELSE 0
    END::bigint AS state
  FROM asked a
  CROSS JOIN c
  LEFT JOIN LATERAL (SELECT h.key FROM heads h WHERE h.key = a.thread FOR KEY SHARE) AS t ON TRUE
  LEFT JOIN LATERAL (
    SELECT e.tag, e.value, e.size, e.created_at AS first_at, (e.expires_at IS NULL OR e.expires_at > c.now)
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
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.tag IS NULL
), kv_changed AS (
  UPDATE kv SET value = w.value, size = w.size, tag = w.tag, thread = w.thread,
    created_at = coalesce(w.created_at, CASE WHEN w.state = 1 THEN w.first_at ELSE c.now END),
    updated_at = coalesce(w.updated_at, c.now), expires_at = coalesce(w.expires_at, c.now + w.life)
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE kv.project = $2 AND kv.owner = $3 AND kv.ns = w.ns AND kv.key = w.key AND w.last AND w.tag IS NOT NULL
    AND w.former IS NOT NULL
), kv_put AS (
  INSERT INTO kv (project, owner, ns, key, value, size, tag, thread, created_at, updated_at, expires_at)
  SELECT $2, $3, w.ns, w.key, w.value, w.size, w.tag, w.thread, coalesce(w.created_at, c.now),
    coalesce(w.updated_at, c.now), coalesce(w.expires_at, c.now + w.life)
  FROM held w
  CROSS JOIN fits
  CROSS JOIN c
  WHERE w.last AND w.tag IS NOT NULL AND w.former IS NULL
)
-- </fragment>
SELECT w.state,
  CASE WHEN w.last THEN CASE WHEN w.tag IS NULL THEN 0 ELSE w.size END - coalesce(w.former, 0) ELSE 0 END
FROM held w
ORDER BY w.n
