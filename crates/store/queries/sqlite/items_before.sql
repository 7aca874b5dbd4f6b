-- Reads the state of an item list, and the last items before a position, in order. No row if the thread is gone, one without a position
-- if there are no items.
-- Caller: items in src/sql/items.rs
-- ?1 key integer
-- ?2 list text
-- ?3 before integer: position
-- ?4 limit integer
-- ?5 bytes integer: items are read from the last one until they reach these
-- example: 1, 'l', 10, 10, 1000

SELECT l.tag, l.count, l.next_pos, p.pos, p.body
FROM heads h
LEFT JOIN item_lists l ON l.key = h.key AND l.list = ?2
LEFT JOIN (
  SELECT w.pos, w.body,
    sum(w.size) OVER (ORDER BY w.pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - w.size AS before
  FROM (
    SELECT items.pos, items.size, items.body FROM items
    WHERE items.key = ?1 AND items.list = ?2 AND items.pos < ?3 AND items.gone_at IS NULL
    ORDER BY items.pos DESC LIMIT ?4
  ) AS w
) AS p ON p.before < ?5
WHERE h.key = ?1
ORDER BY p.pos
