-- Creates a thread. No row if the id is taken, as in thread_taken.sql; waits for a transaction that takes it at this moment.
-- The conditions save a number of the sequence.
-- Caller: create_thread in src/postgres/threads.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 project text
-- $3 thread text: id of the thread
-- $4 user text
-- $5 agent text
-- $6 name text
-- $7 name_source bigint
-- $8 metadata text
-- $9 created_with text
-- $10 epoch bigint
-- $11 request text: the idempotency key of the request, or NULL
-- $12 claimed boolean
-- example: NULL, 'p', 't', 'u', NULL, 'A name', 0, '{}', '{}', 7, NULL, TRUE

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, made AS (
  INSERT INTO threads AS t (
    project, id, user_id, agent, name, name_source, metadata, created_with, created_at, updated_at, sort_at,
    request, claimed
  )
  SELECT $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, $8::text, $9::text, c.now, c.now, c.now,
    $11::text, $12::boolean
  FROM c
  WHERE NOT EXISTS (SELECT 1 FROM threads WHERE project = $2 AND user_id = $4 AND id = $3 AND deleted = 0)
    AND NOT EXISTS (SELECT 1 FROM threads WHERE project = $2 AND id = $3 AND deleted = 0 AND claimed AND $12)
  ON CONFLICT DO NOTHING
  RETURNING t.key, t.created_at
), head AS (
  INSERT INTO heads (key, epoch, generation) SELECT made.key, $10::bigint, c.generation FROM made CROSS JOIN c
)
SELECT key, created_at FROM made
