-- Opens a generation, inside a transaction, and has all logs and feeds enter it: each gets another epoch and keeps the
-- one before with the tail up to which both are the same. Keys continue above all that may have been given before, and
-- so do the fences of later starts. The audit log of the project `default` has an entry. SQLite has no exclusive or; (a | b) - (a & b) is the same.
-- Caller: open_generation in src/sqlite/history.rs
-- ?1 now integer: the time
-- ?2 cause text
-- ?3 known integer: the newest generation that was ever seen
-- example: 0, 'copied', 1

INSERT INTO lineage (generation, nonce, at, cause)
SELECT 1 + max(max(generation), ?3), 1 + (random() & 0x3ffffffffffffffe), ?1, ?2 FROM lineage;
INSERT INTO audit (project, at, actor, action, facts)
SELECT 'default', at, 'store', 'lineage.changed', json_object('generation', generation, 'cause', cause)
FROM lineage ORDER BY generation DESC LIMIT 1;
UPDATE heads
SET prior_epoch = epoch, prior_tail = tail, epoch = (epoch | l.nonce) - (epoch & l.nonce), generation = l.generation
FROM (SELECT generation, nonce FROM lineage ORDER BY generation DESC LIMIT 1) AS l;
UPDATE feed_heads
SET prior_epoch = epoch, prior_head = head, epoch = (epoch | l.nonce) - (epoch & l.nonce), generation = l.generation
FROM (SELECT generation, nonce FROM lineage ORDER BY generation DESC LIMIT 1) AS l;
INSERT INTO sqlite_sequence (name, seq)
SELECT 'threads', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'threads');
UPDATE sqlite_sequence
SET seq = max(seq, (SELECT (max(generation) - 1) << 40 FROM lineage))
WHERE name = 'threads';
DELETE FROM socket_tickets
