-- Measures the last items of a list, or all up to a position: their number, bytes, and least and greatest positions.
-- Caller: measure in src/sql/items.rs
-- ?1 key integer
-- ?2 list text
-- ?3 upto integer: position
-- ?4 limit integer: of the last items
-- example: 1, 'l', 10, 10

SELECT count(*), CAST(coalesce(sum(i.size), 0) AS bigint), min(i.pos), max(i.pos) FROM (
  SELECT items.pos, items.size FROM items
  WHERE items.key = ?1 AND items.list = ?2 AND items.pos <= ?3 AND items.gone_at IS NULL
  ORDER BY items.pos DESC LIMIT ?4
) AS i
