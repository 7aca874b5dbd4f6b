-- Open interrupts of the thread: an object of {place, body, run, author, seq, at, answeredIn} by id; NULL: none is open.
-- Starts and ends of runs change it in their own statement, so it follows the log. In the row, so that trash, purge, erasure
-- and backups need to know nothing of it; in no list but that of a thread's interrupts.
ALTER TABLE threads ADD COLUMN interrupts jsonb;
-- For lists of threads that wait for an answer.
CREATE INDEX threads_waiting ON threads (project, user_id, sort_at DESC, id) WHERE deleted = 0 AND interrupts IS NOT NULL;
CREATE INDEX threads_waiting_created ON threads (project, user_id, created_at, id)
  WHERE deleted = 0 AND interrupts IS NOT NULL;

-- Open interrupts after a commit of a run: its RUN_STARTED answers the ids in `answers`; the run ends with `status` (NULL: it
-- does not), and may request others (`requested`: {place, body} by id). Answers count once the run has ended without an
-- error; those of a failed run are forgotten. An interrupt that is open already stays as it is. 256 and 65536:
-- MAX_OPEN_INTERRUPTS and MAX_LISTED_INTERRUPTS_BYTES. The memory store has the same as a function in Rust.
CREATE FUNCTION threadline_interrupts(
  open jsonb, run text, author text, answers text, status bigint, requested text, seq bigint, at bigint
) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  WITH kept AS (
    SELECT i.key, CASE
        WHEN $5 IN (3, 5) AND i.value ->> 'answeredIn' = $2 THEN i.value - 'answeredIn'
        WHEN $5 IS NULL AND $4::jsonb ? i.key THEN i.value || jsonb_build_object('answeredIn', $2)
        ELSE i.value
      END AS value
    FROM jsonb_each($1) AS i
    WHERE NOT (coalesce($5, 0) IN (2, 4)
      AND (coalesce(i.value ->> 'answeredIn' = $2, FALSE) OR coalesce($4::jsonb ? i.key, FALSE)))
  ), added AS (
    SELECT r.key, r.value || jsonb_build_object('run', $2, 'author', $3, 'seq', $7, 'at', $8) AS value
    FROM jsonb_each($6::jsonb) AS r
    WHERE NOT EXISTS (SELECT 1 FROM kept WHERE kept.key = r.key)
      AND (SELECT count(*) < 256 AND coalesce(sum(octet_length(value ->> 'body')), 0) < 65536 FROM kept)
  )
  SELECT jsonb_object_agg(key, value) FROM (SELECT * FROM kept UNION ALL SELECT * FROM added) AS i
$$;

-- A program before this step writes without these.
UPDATE threadline_schema SET min_reader = 12;
