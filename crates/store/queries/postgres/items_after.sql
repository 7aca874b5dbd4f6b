-- Reads the state of an item list, and items after a position, in order. No row if the thread is gone, one without a position if there
-- are no items.
-- Caller: items in src/sql/items.rs
-- $1 key bigint
-- $2 list text
-- $3 after bigint: position
-- $4 limit bigint
-- $5 bytes bigint: items are read in order until they reach these
-- example: 1, 'l', 0, 10, 1000

SELECT l.tag, l.count, l.next_pos, p.pos, p.body
FROM heads h
LEFT JOIN item_lists l ON l.key = h.key AND l.list = $2::text
LEFT JOIN (
  SELECT w.pos, w.body, sum(w.size) OVER (ORDER BY w.pos ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT items.pos, items.size, items.body FROM items
    WHERE items.key = $1::bigint AND items.list = $2 AND items.pos > $3::bigint AND items.gone_at IS NULL
    ORDER BY items.pos LIMIT $4::bigint
  ) AS w
) AS p ON p.before < $5::bigint
WHERE h.key = $1
ORDER BY p.pos
