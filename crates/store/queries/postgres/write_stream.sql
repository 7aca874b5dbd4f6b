-- Creates a plain stream, or changes one that still has the tag that the caller has read, with its content and the state of a producer:
-- all, or nothing. The source of a fork is locked against its deletion. Answers with a row if the stream was written.
-- Caller: write_row in src/postgres/streams.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 tag bigint: the new one
-- $4 record bytea
-- $5 expires_at bigint: or NULL
-- $6 added bigint: counted bytes
-- $7 former bigint: tag of the row, or NULL to create it
-- $8 project text: of a new stream
-- $9 owner text: user, or empty
-- $10 path text
-- $11 source bigint: stream that a new one is a fork of, or NULL
-- $12 first bigint: position before the content, or NULL if there is none
-- $13 last bigint: position after the content
-- $14 body bytea
-- $15 epoch bigint: of the producer, or NULL if there is none
-- $16 seq bigint: of the producer
-- $17 producer text
-- example: NULL, 1, 2, '{}', NULL, 130, NULL, 'p', 'u', 'a', NULL, 0, 2, 'ab', 0, 0, 'w'

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, source AS MATERIALIZED (
  SELECT s.key FROM streams s WHERE s.key = $11::bigint AND s.state = 0 FOR SHARE
), created AS (
  INSERT INTO streams (key, project, owner, path, tag, state, parent, expires_at, size, record)
  SELECT $2::bigint, $8::text, $9::text, $10::text, $3::bigint, 0, $11, $5::bigint, $6::bigint, $4::bytea FROM c
  WHERE $7::bigint IS NULL AND ($11 IS NULL OR EXISTS (SELECT 1 FROM source))
  ON CONFLICT DO NOTHING
  RETURNING key
), changed AS (
  UPDATE streams s SET tag = $3, record = $4, expires_at = $5, size = s.size + $6 FROM c
  WHERE s.key = $2 AND s.tag = $7 AND s.state = 0
  RETURNING s.key
), held AS (
  SELECT key FROM created
  UNION ALL
  SELECT key FROM changed
), added AS (
  INSERT INTO stream_chunks (stream, first, last, size, body)
  SELECT $2, $12::bigint, $13::bigint, octet_length($14::bytea), $14 FROM held WHERE $12 IS NOT NULL
), noted AS (
  INSERT INTO stream_producers AS p (stream, producer, epoch, seq)
  SELECT $2, $17::text, $15::bigint, $16::bigint FROM held WHERE $15 IS NOT NULL
  ON CONFLICT (stream, producer) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq
)
SELECT key FROM held
