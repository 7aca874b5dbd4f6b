-- Commits a beat of a node, and answers with its number, its time and the store's generation. The first beat inserts the row.
-- Caller: put_beat in src/sqlite/nodes.rs
-- ?1 now integer: the time
-- ?2 id text
-- ?3 name text
-- ?4 version text
-- ?5 leaving integer
-- ?6 skew_ms integer
-- ?7 rtt_us integer
-- ?8 step_ms integer
-- example: 1000, '00000000000000ff', 'host', '0.1.0', 0, NULL, NULL, NULL

INSERT INTO nodes (id, name, version, started_at, beat, at, leaving, generation, skew_ms, rtt_us, step_ms)
VALUES (?2, ?3, ?4, ?1, 1, ?1, ?5, (SELECT max(generation) FROM lineage), ?6, ?7, ?8)
ON CONFLICT (id) DO UPDATE
SET beat = beat + 1, at = excluded.at, leaving = leaving OR excluded.leaving, skew_ms = excluded.skew_ms, rtt_us = excluded.rtt_us,
  step_ms = excluded.step_ms
RETURNING beat, at, generation
