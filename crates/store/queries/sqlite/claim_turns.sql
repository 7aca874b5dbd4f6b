-- Makes a process the driver of turns that have none: given up, of other processes, or of tasks that the process itself has
-- lost. All other processes have ended: the data directory is locked. Answers with the turns and the driver before.
-- Caller: claim_turns in src/sqlite/turns.rs
-- ?1 node text
-- ?2 own text: JSON array of the threads whose turns the process has lost
-- ?3 limit integer
-- example: '0123456789abcdef', '[]', 10

SELECT m.key, t.project, t.user, t.id, m.run, m.agent, m.driver_fence, m.attempt, m.attempt_seq, m.futile, m.called, m.input,
  m.driver
FROM (
  SELECT * FROM turns
  WHERE driven = TRUE AND check_at IS NOT NULL
    AND (driver IS NULL OR driver <> ?1 OR key IN (SELECT value FROM json_each(?2)))
  ORDER BY key, run LIMIT ?3
) AS m
JOIN threads t ON t.key = m.key;
UPDATE turns SET driver = ?1
WHERE (key, run) IN (
  SELECT key, run FROM turns
  WHERE driven = TRUE AND check_at IS NOT NULL
    AND (driver IS NULL OR driver <> ?1 OR key IN (SELECT value FROM json_each(?2)))
  ORDER BY key, run LIMIT ?3
)
