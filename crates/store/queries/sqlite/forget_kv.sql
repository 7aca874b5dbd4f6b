-- Removes a chunk of the key-value entries of a user who is erased, a row for each.
-- Caller: forget_user in src/sql/tables/erasure.rs
-- ?1 project text
-- ?2 user text
-- ?3 limit integer
-- example: 'p', 'u', 10

DELETE FROM kv WHERE rowid IN (SELECT rowid FROM kv WHERE project = ?1 AND owner = ?2 LIMIT ?3)
RETURNING key
