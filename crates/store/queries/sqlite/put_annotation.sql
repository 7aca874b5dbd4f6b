-- Stores an annotation under the next number, and answers with it. Changes no row if the id is taken, or the thread is
-- gone.
-- Caller: put_annotation in src/sql/tables/annotations.rs
-- ?1 now integer
-- ?2 key integer
-- ?3 annotation text: id
-- ?4 kind text
-- ?5 occurred_at integer: or NULL
-- ?6 at integer: or NULL for now
-- ?7 payload text
-- example: 0, 1, 'a', 'note', NULL, NULL, '1'

INSERT INTO annotations (key, number, id, kind, occurred_at, at, payload)
SELECT ?2, coalesce((SELECT max(number) FROM annotations WHERE key = ?2), 0) + 1, ?3, ?4, ?5, coalesce(?6, ?1), ?7
WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?2)
  AND NOT EXISTS (SELECT 1 FROM annotations WHERE key = ?2 AND id = ?3)
RETURNING number
