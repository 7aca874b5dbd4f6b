-- Changes the queue of a thread, inside a transaction that has found the head as it was seen: turns leave, one comes or is
-- edited, and those that stay get their places.
-- Caller: change_queue in src/sqlite/queue.rs
-- ?1 key integer
-- ?2 version integer: of the queue from now on
-- ?3 queued integer: turns from now on
-- ?4 held integer: why the queue rests, or NULL
-- ?5 gone text: JSON array of the runs that leave
-- ?6 order text: JSON array of the runs in their order
-- ?7 edited text: run that is edited, or NULL
-- ?8 input text: of the new or the edited turn, sealed
-- ?9 new text: run that comes, or NULL
-- ?10 agent text: of the new turn
-- ?11 asked_by text
-- ?12 by_key text
-- ?13 at integer
-- example: 1, 2, 1, NULL, '[]', '["r"]', NULL, '{}', 'r', 'a', 'user:u', NULL, 0

UPDATE heads SET queue = ?2, queued = ?3, held = ?4 WHERE key = ?1;
DELETE FROM turns WHERE key = ?1 AND place IS NOT NULL AND run IN (SELECT value FROM json_each(?5));
INSERT INTO turns (key, run, project, user, agent, at, place, driven, attempt, asked_by, by_key, input)
SELECT ?1, ?9, t.project, t.user, ?10, ?13, 1, 1, 0, ?11, ?12, ?8 FROM threads t WHERE t.key = ?1 AND ?9 IS NOT NULL;
UPDATE turns SET place = o.key + 1, input = CASE WHEN run = ?7 THEN ?8 ELSE input END
FROM json_each(?6) AS o
WHERE turns.key = ?1 AND turns.place IS NOT NULL AND turns.run = o.value;
UPDATE threads SET version = version + 1 WHERE key = ?1
