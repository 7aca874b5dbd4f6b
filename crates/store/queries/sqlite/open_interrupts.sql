-- Reads the open interrupts of threads.
-- Caller: open_interrupts in src/sqlite/threads.rs
-- ?1 keys text: [key, …]
-- example: '[1]'

SELECT t.key, t.interrupts
FROM json_each(?1) AS v
CROSS JOIN threads t ON t.key = v.value
WHERE t.interrupts IS NOT NULL AND t.deleted < 1
