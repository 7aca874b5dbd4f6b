-- Measures the last items of a list, or all up to a position: their number, bytes, and least and greatest positions.
-- Caller: measure in src/sql/items.rs
-- $1 key bigint
-- $2 list text
-- $3 upto bigint: position
-- $4 limit bigint: of the last items
-- example: 1, 'l', 10, 10

SELECT count(*), CAST(coalesce(sum(i.size), 0) AS bigint), min(i.pos), max(i.pos) FROM (
  SELECT items.pos, items.size FROM items
  WHERE items.key = $1::bigint AND items.list = $2::text AND items.pos <= $3::bigint AND items.gone_at IS NULL
  ORDER BY items.pos DESC LIMIT $4::bigint
) AS i
