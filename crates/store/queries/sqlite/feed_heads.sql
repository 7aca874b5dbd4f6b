-- Reads the newest positions of feeds, in the order given.
-- Caller: feed_heads in src/sqlite/feed.rs
-- ?1 feeds text: [[project, user], …]
-- example: '[["p","u"]]'

SELECT coalesce(f.head, 0) FROM json_each(?1) AS v
LEFT JOIN feed_heads f ON f.project = v.value ->> 0 AND f.user = v.value ->> 1
ORDER BY v.key
