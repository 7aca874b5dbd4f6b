-- Reads the heads of feeds, in the order given.
-- Caller: feed_heads in src/postgres/feed.rs
-- $1 projects text[]
-- $2 users text[]
-- example: '{p}', '{u}'

SELECT
  -- <fragment feed_head_columns>
  f.head, f.epoch, f.generation, f.prior_epoch, f.prior_head
  -- </fragment>
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS v (project, user_id, n)
LEFT JOIN LATERAL (
  SELECT * FROM feed_heads h WHERE h.project = v.project AND h.user_id = v.user_id OFFSET 0
) f ON TRUE
ORDER BY v.n
