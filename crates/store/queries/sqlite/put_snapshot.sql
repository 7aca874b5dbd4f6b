-- Stores a snapshot, and drops older ones.
-- Caller: put_snapshot in src/sql/tables/snapshots.rs
-- ?1 key integer
-- ?2 seq integer
-- ?3 version integer
-- ?4 raw integer: bytes before compression
-- ?5 body blob: compressed
-- ?6 dropped text: seqs to drop, [seq, …]
-- ?7 crc integer: CRC-32C of the body
-- example: 1, 2, 1, 3, x'00', '[1]', 0

DELETE FROM snapshots WHERE key = ?1 AND (seq = ?2 OR seq IN (SELECT value FROM json_each(?6)));
INSERT INTO snapshots (key, seq, version, raw, body, crc)
SELECT ?1, ?2, ?3, ?4, ?5, ?7
WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)
