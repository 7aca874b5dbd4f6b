-- Inserts rows of the log of a staged thread.
-- Caller: put in src/sqlite/staging.rs
-- ?1 key integer
-- ?2 rows text: [[first_seq, last_seq, fence, at, raw, offset in the bodies, length, crc], …]
-- ?3 bodies blob: the bodies of all entries, one after the other
-- example: 1, '[[1,2,1,0,6,1,6,0]]', x'7b7d0a7b7d0a'

INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, substr(?3, value ->> 5, value ->> 6),
  value ->> 7
FROM jsonb_each(?2)
