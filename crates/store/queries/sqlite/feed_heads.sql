-- Reads the heads of feeds, in the order given.
-- Caller: feed_heads in src/sqlite/feed.rs
-- ?1 feeds text: [[project, user], …]
-- example: '[["p","u"]]'

SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
FROM json_each(?1) AS v
LEFT JOIN feed_heads f ON f.project = v.value ->> 0 AND f.user = v.value ->> 1
ORDER BY v.key
