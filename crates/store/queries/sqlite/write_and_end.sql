-- Inserts log rows and ends runs, inside a transaction. At the end of a run the head is free, the record is final,
-- and the thread's row reports both.
-- Caller: write in src/sqlite/append.rs
-- ?1 entries text: rows [key, fence, first_seq, last_seq, offset, length, crc, status, code, …] as `pack` makes them
-- ?2 now integer: the time
-- ?3 bodies blob: the bodies of all entries, one after the other
-- example: '[[1,1,1,2,1,6,0],[1,1,3,2,7,null,null,2,null,null,2,null,null]]', 0, x'7b7d0a7b7d0a'

-- <fragment put_rows>
INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT value ->> 0, value ->> 2, value ->> 3, value ->> 1, ?2, value ->> 5, substr(?3, value ->> 4, value ->> 5),
  value ->> 6
FROM jsonb_each(?1) WHERE value ->> 5 IS NOT NULL
-- </fragment>
;
-- <fragment end_runs>
UPDATE heads AS h SET tail = v.tail, run = NULL, stop_at = NULL, finishing = 0
FROM (SELECT value ->> 0 AS k, value ->> 3 AS tail FROM jsonb_each(?1) WHERE value ->> 7 IS NOT NULL) AS v
WHERE h.key = v.k;
UPDATE runs AS r
SET status = v.status, error_code = v.code, error_message = v.message, producer_seq = v.p, stop_at = v.stop,
    usage = v.usage, ended_at = ?2
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 7 AS status, value ->> 8 AS code,
             value ->> 9 AS message, value ->> 10 AS p, value ->> 11 AS stop, value ->> 12 AS usage
      FROM jsonb_each(?1) WHERE value ->> 7 IS NOT NULL) AS v
WHERE r.key = v.k AND r.fence = v.f;
DELETE FROM turns
WHERE place IS NULL AND key IN (SELECT value ->> 0 FROM jsonb_each(?1) WHERE value ->> 7 IS NOT NULL);
INSERT OR IGNORE INTO jobs (kind, ref, due_at)
SELECT 'seal', CAST(value ->> 0 AS TEXT), ?2 FROM jsonb_each(?1)
WHERE value ->> 7 IS NOT NULL AND (value ->> 3) / 256 > ((value ->> 3) - (value ->> 10)) / 256;
UPDATE threads AS t SET last_run_at = ?2, sort_at = ?2, version = version + 1
FROM (SELECT value ->> 0 AS k FROM jsonb_each(?1) WHERE value ->> 7 IS NOT NULL) AS v
WHERE t.key = v.k
-- </fragment>
