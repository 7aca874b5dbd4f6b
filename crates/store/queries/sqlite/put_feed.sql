-- Replaces a feed. One that is created gets the epoch given, or a random one.
-- Caller: put_feed in src/sqlite/transfer.rs
-- ?1 project text
-- ?2 user text
-- ?3 entries text: [[position, thread id], …]
-- ?4 head integer: its newest position
-- ?5 epoch integer: of a feed that is created; 0 for a random one
-- example: 'p', 'u', '[[1,"t"]]', 1, 0

DELETE FROM feed_entries WHERE project = ?1 AND user = ?2;
INSERT INTO feed_entries (project, user, pos, thread, key)
SELECT ?1, ?2, v.value ->> 0, v.value ->> 1, t.key
FROM json_each(?3) AS v
LEFT JOIN threads t ON t.project = ?1 AND t.id = v.value ->> 1 AND t.deleted = 0 AND t.user = ?2;
INSERT INTO feed_heads (project, user, head, epoch, generation)
VALUES (?1, ?2, ?4, coalesce(nullif(?5, 0), random() & 0x3fffffffffffffff), (SELECT max(generation) FROM lineage))
ON CONFLICT (project, user) DO UPDATE SET head = excluded.head;
UPDATE threads
SET fed_version = -fed_version
WHERE fed_version < 0 AND key IN (SELECT key FROM feed_entries WHERE project = ?1 AND user = ?2 AND key IS NOT NULL)
