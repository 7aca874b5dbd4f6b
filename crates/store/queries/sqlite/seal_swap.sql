-- Replaces rows, which may be open segments, by their segment, in one trip to the database; no segment is inserted unless
-- exactly these rows were removed. Rows are only ever merged, so an equal number of rows in a range are the same rows.
-- Caller: swap in src/sqlite/seal.rs
-- ?1 key integer
-- ?2 first_seq integer: of the segment
-- ?3 last_seq integer
-- ?4 at integer: its time
-- ?5 raw integer: bytes of the events
-- ?6 body blob
-- ?7 rows integer: number of rows replaced
-- ?8 crc integer: CRC-32C of the body
-- example: 1, 1, 2, 0, 6, x'00', 2, 0

DELETE FROM log WHERE key = ?1 AND first_seq BETWEEN ?2 AND ?3 AND last_seq <= ?3;
INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT ?1, ?2, ?3, NULL, ?4, ?5, ?6, ?8
WHERE changes() = ?7
