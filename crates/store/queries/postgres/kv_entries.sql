-- Reads key-value entries by their places. The number of the place, from 1, comes first; the value is NULL where the values up to
-- this one have more bytes than wanted.
-- Caller: kv_entries in src/sql/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text: user, or empty
-- $4 places text: [[ns, key], …]
-- $5 bytes bigint: of all values
-- example: NULL, 'p', 'u', '[["","k"]]', 1000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, found AS (
  SELECT a.n, k.*, sum(k.size) OVER (ORDER BY a.n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto
  FROM json_array_elements($4::text::json) WITH ORDINALITY AS a (place, n)
  CROSS JOIN c
  CROSS JOIN LATERAL (
    SELECT * FROM kv
    WHERE kv.project = $2::text AND kv.owner = $3::text AND kv.ns = a.place ->> 0 AND kv.key = a.place ->> 1
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > c.now)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread OFFSET 0))
      -- </fragment>
  ) AS k
)
SELECT f.n, f.ns, f.key, f.tag, f.created_at, f.updated_at, f.expires_at, CASE WHEN f.upto <= $5::bigint THEN f.value END
FROM found f
ORDER BY f.n
