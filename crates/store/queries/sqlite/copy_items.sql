-- Adds the items of another list to a list, up to a position.
-- Caller: commit in src/sqlite/items.rs
-- ?1 key integer
-- ?2 list text
-- ?3 source integer: key of the other thread
-- ?4 source_list text
-- ?5 upto integer: last position that is copied
-- ?6 first_pos integer: of the copies
-- example: 1, 'l', 2, 'm', 10, 1

INSERT INTO items (key, list, pos, size, body)
SELECT ?1, ?2, ?6 - 1 + row_number() OVER (ORDER BY pos), size + octet_length(?2) - octet_length(?4), body FROM items
WHERE key = ?3 AND list = ?4 AND gone_at IS NULL AND pos <= ?5
