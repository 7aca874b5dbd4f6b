-- Stores an annotation under the next number. The lock of the head prevents a deletion of the thread meanwhile, and
-- no append waits for it. The second statement with the same id waits for the row in `annotated`, and the index
-- refuses it. Answers with a row if the annotation was stored.
-- Caller: put_annotation in src/sql/tables/annotations.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 annotation text: id
-- $4 kind text
-- $5 occurred_at bigint: or NULL
-- $6 at bigint: or NULL for now
-- $7 payload text
-- example: NULL, 1, 'a', 'note', NULL, NULL, '1'

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, thread AS MATERIALIZED (
  SELECT h.key FROM heads h WHERE h.key = $2::bigint FOR KEY SHARE
), counted AS (
  INSERT INTO annotated AS n (key, newest)
  SELECT thread.key, 1 FROM thread
  WHERE NOT EXISTS (SELECT 1 FROM annotations WHERE key = $2 AND id = $3::text)
  ON CONFLICT (key) DO UPDATE SET newest = n.newest + 1
  RETURNING n.newest
), put AS (
  INSERT INTO annotations (key, number, id, kind, occurred_at, at, payload)
  SELECT $2, counted.newest, $3, $4::text, $5::bigint, coalesce($6::bigint, c.now), $7::text
  FROM counted
  CROSS JOIN c
  RETURNING number
)
SELECT number FROM put
