-- Stages a thread that is imported or forked, with the first part of its rows. A thread staged for the user under the id before becomes a tombstone.
-- The feed owes a staged thread no position. $2 is not used, so that the parameters of a part are numbered as in
-- stage_more.sql.
-- Caller: stage in src/postgres/staging.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 unused bigint: NULL
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
-- $27 project text
-- $28 thread text: id of the thread
-- $29 user text
-- $30 agent text
-- $31 name text
-- $32 name_source bigint
-- $33 archived boolean
-- $34 metadata text
-- $35 created_at bigint
-- $36 updated_at bigint
-- $37 last_run_at bigint
-- $38 version bigint
-- $39 created_with text
-- $40 read_seq bigint
-- $41 timeout bigint: STAGING_TIMEOUT in ms
-- $42 claimed boolean
-- $43 family bigint: or NULL
-- $44 listed boolean
-- $45 forked_thread text: thread that was forked, or NULL
-- $46 forked_epoch bigint
-- $47 forked_seq bigint
-- $48 request text: idempotency key of the fork, or NULL
-- example: NULL, NULL, '{1}', '{r}', '{NULL}', '{2}', '{NULL}', '{NULL}', '{NULL}', '{1}', '{1}', '{0}', '{0}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{1}', '{1}', '{1}', '{1}', '{0}', '{3}', '{"\\x7b7d0a"}', '{0}', NULL, 'p', 't', 'u', NULL, NULL, NULL, FALSE, '{}', 0, 0, NULL, 1, '{}', 0, 3600000, TRUE, NULL, TRUE, NULL, NULL, NULL, NULL

WITH
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, forgotten AS (
  UPDATE threads AS t SET deleted = 1 WHERE t.deleted = 3 AND t.project = $27::text AND t.id = $28::text AND t.user_id = $29::text
  RETURNING t.key, t.sort_at
), overdue AS (
  UPDATE jobs AS j SET due_at = f.sort_at FROM forgotten f WHERE j.kind = 'purge' AND j.ref = f.key::text
), place AS (
  INSERT INTO threads (
    project, id, user_id, agent, name, name_source, archived, metadata, created_at, updated_at, last_run_at, version,
    fed_version, created_with, read_seq, sort_at, deleted, claimed,
    family, listed, forked_thread, forked_epoch, forked_seq, request
  )
  SELECT $27, $28, $29, $30::text, $31::text, $32::bigint, $33::boolean, $34::text, $35::bigint, $36::bigint,
    $37::bigint, $38::bigint, $38, $39::text, $40::bigint, c.now, 3, $42::boolean,
    $43::bigint, $44::boolean, $45::text, $46::bigint, $47::bigint, $48::text
  FROM c
  WHERE $2::bigint IS NULL
  RETURNING key, project, user_id
), queued AS (
  INSERT INTO jobs (kind, ref, due_at) SELECT 'purge', place.key::text, c.now + $41::bigint FROM place CROSS JOIN c
), counted AS (
  INSERT INTO usage AS u (project, owner, bytes, threads, checked_at)
  SELECT place.project, o.owner, (SELECT coalesce(sum(raw), 0) FROM unnest($23::bigint[]) AS raw), 1, 0 FROM place
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
