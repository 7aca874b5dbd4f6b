-- Reads the open interrupts of threads.
-- Caller: open_interrupts in src/postgres/threads.rs
-- $1 keys bigint[]
-- example: '{1}'

SELECT t.key, t.interrupts::text
FROM unnest($1::bigint[]) AS v (key)
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = v.key AND threads.deleted < 1 OFFSET 0) AS t
WHERE t.interrupts IS NOT NULL
