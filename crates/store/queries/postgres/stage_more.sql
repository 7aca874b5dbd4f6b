-- Stages another part of an imported thread. No row if the thread is not staged (any more).
-- Caller: stage_more in src/postgres/staging.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 run_fences bigint[]
-- $4 run_ids text[]
-- $5 run_agents text[]
-- $6 run_statuses bigint[]
-- $7 run_codes text[]
-- $8 run_messages text[]
-- $9 run_usages text[]
-- $10 run_first_seqs bigint[]
-- $11 run_producer_seqs bigint[]
-- $12 run_started bigint[]
-- $13 run_ended bigint[]
-- $14 run_stops bigint[]
-- $15 run_driven boolean[]
-- $16 run_authors text[]
-- $17 run_asked_by text[]
-- $18 run_attempts bigint[]
-- $19 first_seqs bigint[]: of rows of the log
-- $20 last_seqs bigint[]
-- $21 log_fences bigint[]: NULL for a segment
-- $22 times bigint[]
-- $23 raws bigint[]: bytes of the events
-- $24 bodies bytea[]
-- $25 crcs bigint[]: CRC-32C of the bodies
-- $26 sealed bigint: seq up to which the rows are sealed, or NULL
-- example: NULL, 1, '{1}', '{r}', '{NULL}', '{2}', '{NULL}', '{NULL}', '{NULL}', '{1}', '{1}', '{0}', '{0}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{1}', '{1}', '{1}', '{1}', '{0}', '{3}', '{"\\x7b7d0a"}', '{0}', NULL

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, place AS (
  UPDATE threads AS t SET sort_at = c.now FROM c WHERE t.key = $2::bigint AND t.deleted = 3
  RETURNING t.key, t.project, t.user_id
), counted AS (
  INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
  SELECT place.project, o.owner, (SELECT coalesce(sum(raw), 0) FROM unnest($23::bigint[]) AS raw), 0, 0 FROM place
  CROSS JOIN LATERAL (VALUES (place.user_id), ('')) AS o (owner)
  ORDER BY o.owner = ''
  ON CONFLICT (project, owner)
  DO UPDATE SET bytes = u.bytes + excluded.bytes, threads = u.threads + excluded.threads
),
-- <fragment part>
brought AS (
  INSERT INTO runs (key, fence, id, agent, status, error_code, error_message, usage, first_seq, producer_seq,
                    started_at, ended_at, stop_at, driven, author, asked_by, attempt)
  SELECT place.key, r.*
  FROM place CROSS JOIN unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::boolean[],
    $16::text[], $17::text[], $18::bigint[]) AS r
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT place.key, l.*
  FROM place CROSS JOIN unnest($19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bytea[],
    $25::bigint[]) AS l
), decided AS (
  INSERT INTO sealing AS s (key, upto) SELECT place.key, $26 FROM place WHERE $26::bigint IS NOT NULL
  ON CONFLICT (key) DO UPDATE SET upto = greatest(s.upto, excluded.upto)
)
SELECT key FROM place
-- </fragment>
