-- Reads a page of the key-value entries of an owner within a range of namespaces, in the order of their places.
-- Caller: kv_page in src/sql/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text: user, or empty
-- $4 after_ns text: namespace and
-- $5 after_key text: key after which the page begins
-- $6 end text: that all namespaces are less than
-- $7 limit bigint
-- $8 bytes bigint: entries are read in order until their values reach these
-- example: NULL, 'p', 'u', '', '', '~', 10, 1000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, page AS (
  SELECT w.*,
    sum(w.size) OVER (ORDER BY w.ns, w.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT kv.* FROM kv
    CROSS JOIN c
    WHERE kv.project = $2::text AND kv.owner = $3::text AND (kv.ns, kv.key) > ($4::text, $5::text) AND kv.ns < $6::text
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > c.now)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread OFFSET 0))
      -- </fragment>
    ORDER BY kv.ns, kv.key LIMIT $7::bigint
  ) AS w
)
SELECT p.ns, p.key, p.tag, p.created_at, p.updated_at, p.expires_at, p.value
FROM page p
WHERE p.before < $8::bigint
ORDER BY p.ns, p.key
