-- Finds threads that have agent data, for an export.
-- Caller: listed_data in src/sql/items.rs
-- $1 after bigint: key
-- $2 limit bigint
-- example: 0, 10

SELECT t.key, t.project, t.user_id, t.id, t.claimed, h.epoch FROM agent_data n
CROSS JOIN LATERAL (SELECT * FROM heads WHERE heads.key = n.key OFFSET 0) AS h
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = h.key OFFSET 0) AS t
WHERE n.key > $1::bigint
ORDER BY n.key LIMIT $2::bigint
