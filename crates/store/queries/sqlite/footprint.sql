-- Counts over a user's live threads.
-- Caller: footprint in src/sqlite/erasure.rs
-- ?1 project text
-- ?2 user text
-- example: 'p', 'u'

SELECT count(*), coalesce(sum((SELECT count(*) FROM runs r WHERE r.key = t.key)), 0), coalesce(sum(h.tail), 0),
  coalesce(sum((SELECT count(*) FROM snapshots s WHERE s.key = t.key)), 0),
  coalesce(sum((SELECT count(*) FROM annotations a WHERE a.key = t.key)), 0)
FROM threads t
CROSS JOIN heads h ON h.key = t.key
WHERE t.project = ?1 AND t.user = ?2 AND t.deleted = 0
