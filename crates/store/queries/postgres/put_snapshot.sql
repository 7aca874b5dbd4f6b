-- Stores a snapshot, and drops older ones. The lock of the head prevents a deletion of the thread meanwhile.
-- Caller: put_snapshot in src/sql/tables/snapshots.rs
-- $1 key bigint
-- $2 seq bigint
-- $3 version bigint
-- $4 raw bigint: bytes before compression
-- $5 body bytea: compressed
-- $6 dropped text: seqs to drop, [seq, …], not the snapshot's own
-- $7 crc bigint: CRC-32C of the body
-- example: 1, 2, 1, 3, '\x00', '[1]', 0

WITH dropped AS (
  DELETE FROM snapshots WHERE key = $1::bigint AND seq IN (SELECT json_array_elements_text($6::text::json)::bigint) AND seq <> $2::bigint
)
INSERT INTO snapshots (key, seq, version, raw, body, crc)
SELECT h.key, $2, $3::bigint, $4::bigint, $5::bytea, $7::bigint FROM heads h
WHERE h.key = $1
FOR KEY SHARE
ON CONFLICT (key, seq) DO UPDATE
SET version = excluded.version, raw = excluded.raw, body = excluded.body, crc = excluded.crc
