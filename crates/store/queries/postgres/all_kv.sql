-- Reads a page of the key-value entries of all owners, with the threads that they go with, for an export.
-- Caller: all_kv in src/sql/kv.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 owner text
-- $4 ns text
-- $5 key text: of the place after which the page begins
-- $6 limit bigint
-- $7 bytes bigint: entries are read in order until their values reach these
-- example: NULL, '', '', '', '', 10, 1000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, page AS (
  SELECT w.*, sum(w.size) OVER (
    ORDER BY w.project, w.owner, w.ns, w.key ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  ) - w.size AS before
  FROM (
    SELECT kv.* FROM kv
    CROSS JOIN c
    WHERE (kv.project, kv.owner, kv.ns, kv.key) > ($2::text, $3::text, $4::text, $5::text)
      -- <fragment kv_live>
      AND (kv.expires_at IS NULL OR kv.expires_at > c.now)
      AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread OFFSET 0))
      -- </fragment>
    ORDER BY kv.project, kv.owner, kv.ns, kv.key LIMIT $6::bigint
  ) AS w
)
SELECT p.project, p.owner, p.ns, p.key, p.tag, p.created_at, p.updated_at, p.expires_at, p.value, t.user_id, t.id, p.life
FROM page p
LEFT JOIN LATERAL (SELECT * FROM threads WHERE threads.key = p.thread OFFSET 0) AS t ON TRUE
WHERE p.before < $7::bigint
ORDER BY p.project, p.owner, p.ns, p.key
