-- Inserts the log rows of a group after its heads were moved, and commits.
-- Caller: group in src/sqlite/append.rs
-- ?1 entries text: rows [key, fence, first_seq, last_seq, offset, length, crc, at] as `pack` makes them
-- ?2 bodies blob: the bodies of all entries, one after the other
-- example: '[[1,1,1,2,1,6,0,0]]', x'7b7d0a7b7d0a'

-- <fragment put_rows>
INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT value ->> 0, value ->> 2, value ->> 3, value ->> 1, value ->> 7, value ->> 5, substr(?2, value ->> 4, value ->> 5),
  value ->> 6
FROM jsonb_each(?1) WHERE value ->> 5 IS NOT NULL
-- </fragment>
;
COMMIT
