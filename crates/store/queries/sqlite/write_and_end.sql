-- Inserts log rows and ends runs, inside a transaction. At the end of a run the head is free, the record is final,
-- and the thread's row reports both.
-- Caller: write in src/sqlite/append.rs
-- ?1 entries text: rows [key, fence, first_seq, last_seq, offset, length, crc, at, status, code, …] as `pack` makes them
-- ?2 bodies blob: the bodies of all entries, one after the other
-- ?3 now integer: the time
-- example: '[[1,1,1,2,1,6,0,0],[1,1,3,2,7,null,null,0,2,null,null,2,null,null,null,null]]', x'7b7d0a7b7d0a', 0

-- <fragment put_rows>
INSERT INTO log (key, first_seq, last_seq, fence, at, raw, body, crc)
SELECT value ->> 0, value ->> 2, value ->> 3, value ->> 1, value ->> 7, value ->> 5, substr(?2, value ->> 4, value ->> 5),
  value ->> 6
FROM jsonb_each(?1) WHERE value ->> 5 IS NOT NULL
-- </fragment>
;
-- <fragment end_runs>
UPDATE heads AS h SET tail = v.tail, at = v.at, run = NULL, stop_at = NULL, finishing = 0
FROM (SELECT value ->> 0 AS k, value ->> 3 AS tail, value ->> 7 AS at FROM jsonb_each(?1) WHERE value ->> 8 IS NOT NULL) AS v
WHERE h.key = v.k;
UPDATE runs AS r
SET status = v.status, error_code = v.code, error_message = v.message, producer_seq = v.p, stop_at = v.stop,
    usage = v.usage, ended_at = ?3
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 8 AS status, value ->> 9 AS code,
             value ->> 10 AS message, value ->> 11 AS p, value ->> 12 AS stop, value ->> 13 AS usage
      FROM jsonb_each(?1) WHERE value ->> 8 IS NOT NULL) AS v
WHERE r.key = v.k AND r.fence = v.f;
DELETE FROM turns
WHERE place IS NULL AND key IN (SELECT value ->> 0 FROM jsonb_each(?1) WHERE value ->> 8 IS NOT NULL);
INSERT OR IGNORE INTO jobs (kind, ref, due_at)
SELECT 'seal', CAST(value ->> 0 AS TEXT), ?3 FROM jsonb_each(?1)
WHERE value ->> 8 IS NOT NULL AND (value ->> 3) / 256 > ((value ->> 3) - (value ->> 11)) / 256;
UPDATE threads AS t
SET last_run_at = ?3, sort_at = ?3, version = version + 1, last_status = v.status, last_error = v.code,
  interrupts = CASE
    WHEN t.interrupts IS NOT NULL OR v.requested IS NOT NULL THEN (
      -- The same as `threadline_interrupts` on Postgres. 256 and 65536: MAX_OPEN_INTERRUPTS and MAX_LISTED_INTERRUPTS_BYTES.
      -- Materialized, or they would be computed again for each row of the others.
      WITH run AS MATERIALIZED (
        SELECT id, author, coalesce(author LIKE 'agent:%', 0) AS by_agent FROM runs r WHERE r.key = v.k AND r.fence = v.f
      ), kept AS MATERIALIZED (
        SELECT i.key AS id, run.by_agent <= coalesce(i.value ->> 'author' LIKE 'agent:%', 0) AS counts,
          CASE WHEN v.status IN (3, 5) AND i.value ->> 'answeredIn' = run.id THEN json_remove(i.value, '$.answeredIn')
            ELSE i.value END AS value
        FROM run
        CROSS JOIN json_each(t.interrupts) AS i
        WHERE NOT (v.status IN (2, 4) AND (coalesce(i.value ->> 'answeredIn' = run.id, 0)
          OR i.key IN (SELECT value FROM json_each(v.answers))))
          AND NOT (run.by_agent > coalesce(i.value ->> 'author' LIKE 'agent:%', 0)
            AND i.key IN (SELECT key FROM json_each(v.requested)))
      ), added AS (
        SELECT q.key AS id,
          json_set(q.value, '$.run', run.id, '$.author', run.author, '$.seq', v.tail, '$.at', v.at) AS value
        FROM run
        CROSS JOIN json_each(v.requested) AS q
        WHERE q.key NOT IN (SELECT id FROM kept)
          AND (SELECT count(*) < 256 AND coalesce(sum(octet_length(value ->> 'body')), 0) < 65536 FROM kept WHERE counts)
      )
      SELECT json_group_object(id, json(value)) FROM (SELECT id, value FROM kept UNION ALL SELECT id, value FROM added)
      HAVING count(*) > 0
    )
  END
FROM (SELECT value ->> 0 AS k, value ->> 1 AS f, value ->> 3 AS tail, value ->> 7 AS at, value ->> 8 AS status,
             value ->> 9 AS code, value ->> 14 AS requested, value ->> 15 AS answers
      FROM jsonb_each(?1) WHERE value ->> 8 IS NOT NULL) AS v
WHERE t.key = v.k
-- </fragment>
