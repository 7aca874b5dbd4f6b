-- Finds checkpoints of a run in all threads of a project, or of one of its users.
-- Caller: checkpoints_of_run in src/sql/checkpoints.rs
-- $1 project text
-- $2 owner text: user, or NULL for all
-- $3 run text
-- $4 limit bigint
-- example: 'p', NULL, 'r', 10

SELECT k.key, k.owner, k.ns, k.id FROM checkpoints k
WHERE k.project = $1::text AND k.run = $3::text AND ($2::text IS NULL OR k.owner = $2)
  AND EXISTS (SELECT 1 FROM heads h WHERE h.key = k.key OFFSET 0)
LIMIT $4::bigint
