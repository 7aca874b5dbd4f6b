-- Stores an annotation under the next number. Changes no row if the id is taken, or the thread is gone.
-- Caller: put_annotation in src/sqlite/annotations.rs
-- ?1 key integer
-- ?2 annotation text: id
-- ?3 kind text
-- ?4 occurred_at integer: or NULL
-- ?5 at integer
-- ?6 payload text
-- example: 1, 'a', 'note', NULL, 0, '1'

INSERT INTO annotations (key, number, id, kind, occurred_at, at, payload)
SELECT ?1, coalesce((SELECT max(number) FROM annotations WHERE key = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6
WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)
  AND NOT EXISTS (SELECT 1 FROM annotations WHERE key = ?1 AND id = ?2)
