-- Reads what an operation on an item list has to know. No row if the thread is gone.
-- Caller: state in src/sql/items.rs
-- ?1 key integer
-- ?2 list text
-- ?3 op text: key of the operation
-- example: 1, 'l', 'o'

SELECT l.tag, l.count, l.next_pos, o.digest, o.answer, (SELECT count(*) FROM item_lists a WHERE a.key = h.key),
  coalesce((SELECT d.bytes FROM agent_data d WHERE d.key = h.key), 0)
FROM heads h
LEFT JOIN item_lists l ON l.key = h.key AND l.list = ?2
LEFT JOIN item_ops o ON o.key = h.key AND o.list = ?2 AND o.op = ?3
WHERE h.key = ?1
