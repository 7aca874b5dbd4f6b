-- Stores a part of an item list that is moved from another store. A list with another tag stays as it is, and so does an item that is
-- there. Answers with a row if the list is the one that is moved.
-- Caller: put_part in src/postgres/items.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 list text
-- $4 tag text
-- $5 count bigint
-- $6 next_pos bigint
-- $7 places text: [[pos, start, length, size], …]
-- $8 bodies bytea: of the items, one behind the other
-- example: NULL, 1, 'l', 't', 1, 2, '[[1,1,1,1]]', '1'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, thread AS MATERIALIZED (
  SELECT h.key FROM heads h CROSS JOIN c WHERE h.key = $2::bigint FOR KEY SHARE OF h
), list AS (
  INSERT INTO item_lists AS l (key, list, tag, count, next_pos)
  SELECT $2, $3::text, $4::text, $5::bigint, $6::bigint FROM thread
  ON CONFLICT (key, list) DO UPDATE SET tag = l.tag WHERE l.tag = excluded.tag
  RETURNING l.tag
), put AS (
  INSERT INTO items (key, list, pos, size, body)
  SELECT $2, $3, (p ->> 0)::bigint, (p ->> 3)::bigint, substr($8::bytea, (p ->> 1)::integer, (p ->> 2)::integer)
  FROM json_array_elements($7::text::json) AS p
  CROSS JOIN list
  ON CONFLICT DO NOTHING
  RETURNING size
), kept AS (
  INSERT INTO agent_data AS d (key, bytes)
  SELECT $2, (SELECT coalesce(sum(size), 0) FROM put)::bigint FROM list
  ON CONFLICT (key) DO UPDATE SET bytes = d.bytes + excluded.bytes
)
SELECT tag FROM list
