-- Replaces rows of the log, which may be open segments, by segments. Locks the rows to be replaced, and continues only if
-- they are exactly those that the segments were made of: rows that another transaction has locked or taken are missing in
-- the count, and rows are only ever merged, so an equal number of rows in a range are the same rows. The lock of the
-- thread's head prevents a deletion meanwhile, and no append waits for it.
-- Caller: swap in src/postgres/seal.rs
-- $1 key bigint
-- $2 first_seqs bigint[]: of the segments
-- $3 last_seqs bigint[]
-- $4 times bigint[]
-- $5 raws bigint[]: bytes of the events
-- $6 bodies bytea[]
-- $7 rows bigint: number of rows replaced
-- $8 crcs bigint[]: CRC-32C of the bodies
-- $9 upto bigint: seq up to which sealing has decided, or NULL
-- example: 1, '{1}', '{2}', '{0}', '{6}', '{"\\x00"}', 2, '{0}', 2

WITH wanted AS MATERIALIZED (
  SELECT *
  FROM unnest(
    $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $8::bigint[]
  ) AS w (first_seq, last_seq, at, raw, body, crc)
), alive AS MATERIALIZED (
  SELECT h.key FROM heads h WHERE h.key = $1::bigint FOR KEY SHARE
), taken AS MATERIALIZED (
  SELECT l.key, l.first_seq FROM alive
  CROSS JOIN wanted w
  CROSS JOIN LATERAL (
    SELECT log.key, log.first_seq FROM log
    WHERE log.key = alive.key AND log.first_seq BETWEEN w.first_seq AND w.last_seq AND log.last_seq <= w.last_seq
    ORDER BY log.first_seq FOR UPDATE SKIP LOCKED
  ) AS l
), gone AS (
  DELETE FROM log
  USING taken t
  WHERE log.key = $1 AND log.first_seq = t.first_seq AND (SELECT count(*) FROM taken) = $7::bigint
  RETURNING log.first_seq
), put AS (
  INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
  SELECT $1::bigint, w.first_seq, w.last_seq, NULL, w.at, w.raw, w.body, w.crc
  FROM wanted w
  WHERE (SELECT count(*) FROM gone) = $7
  RETURNING last_seq
), decided AS (
  INSERT INTO sealing AS s (key, upto)
  SELECT $1::bigint, $9::bigint FROM put
  WHERE $9 IS NOT NULL
  LIMIT 1
  ON CONFLICT (key) DO UPDATE SET upto = greatest(s.upto, excluded.upto)
)
SELECT count(*) FROM put
