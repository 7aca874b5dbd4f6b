-- Finds the namespace of the oldest loose blob, with the number of changes of its thread, and the owner.
-- Caller: sweep_step in src/postgres/checkpoints.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 age bigint: in ms
-- example: NULL, 3600000

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
SELECT l.key, l.ns, d.changes, t.project, t.user_id FROM (
  SELECT loose_blobs.key, loose_blobs.ns FROM loose_blobs
  WHERE loose_blobs.at <= (SELECT now FROM c) - $2::bigint
  ORDER BY loose_blobs.at LIMIT 1
) AS l
CROSS JOIN LATERAL (SELECT * FROM agent_data WHERE agent_data.key = l.key OFFSET 0) AS d
CROSS JOIN LATERAL (SELECT * FROM threads WHERE threads.key = l.key OFFSET 0) AS t
