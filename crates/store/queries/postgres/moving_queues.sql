-- Free threads whose queue moves: turns are queued, nothing holds them, and no interrupt is open.
-- Caller: moving_queues in src/postgres/queue.rs
-- $1 after bigint: key
-- $2 limit bigint
-- example: 0, 10

SELECT t.key, t.project, t.user_id, t.id
FROM heads h
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key AND threads.interrupts IS NULL OFFSET 0) AS t
WHERE h.key > $1::bigint AND h.queued > 0 AND h.held IS NULL AND h.key > 0 AND NOT h.active
ORDER BY h.key LIMIT $2::bigint
