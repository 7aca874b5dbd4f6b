-- Commits a beat of a node, and answers with its number, its time and the store's generation. The first beat inserts the row.
-- Caller: put_beat in src/postgres/nodes.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 id text
-- $3 name text
-- $4 version text
-- $5 leaving boolean
-- $6 skew_ms bigint
-- $7 rtt_us bigint
-- $8 step_ms bigint
-- example: NULL, '00000000000000ff', 'host', '0.1.0', FALSE, NULL, NULL, NULL

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
INSERT INTO nodes AS n (id, name, version, started_at, beat, at, leaving, generation, skew_ms, rtt_us, step_ms)
SELECT $2::text, $3::text, $4::text, c.now, 1, c.now, $5::boolean, c.generation, $6::bigint, $7::bigint, $8::bigint FROM c
ON CONFLICT (id) DO UPDATE
SET beat = n.beat + 1, at = excluded.at, leaving = n.leaving OR excluded.leaving,
    generation = excluded.generation, skew_ms = excluded.skew_ms, rtt_us = excluded.rtt_us,
    step_ms = excluded.step_ms
RETURNING n.beat, n.at, n.generation
