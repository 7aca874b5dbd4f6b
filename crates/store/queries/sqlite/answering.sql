-- Marks the open interrupts that a run answers, inside a transaction that begins it or appends to it.
-- Caller: answering in src/sqlite/append.rs
-- ?1 key integer
-- ?2 answers text: ids of the interrupts, a JSON array
-- ?3 run text: id of the run
-- example: 1, '["i"]', 'r'

UPDATE threads
SET interrupts = (
  SELECT json_group_object(key, json(
    CASE WHEN key IN (SELECT value FROM json_each(?2)) THEN json_set(value, '$.answeredIn', ?3) ELSE value END
  ))
  FROM json_each(interrupts)
)
WHERE key = ?1 AND interrupts IS NOT NULL
