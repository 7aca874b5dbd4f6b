-- Notes that threads have their positions. A purged tombstone is no longer needed once it has its position.
-- Caller: pump in src/sqlite/feed.rs
-- ?1 keys text: [key, …]
-- example: '[1]'

UPDATE threads SET fed_version = version WHERE key IN (SELECT value FROM json_each(?1));
DELETE FROM threads WHERE deleted = 2 AND key IN (SELECT value FROM json_each(?1))
