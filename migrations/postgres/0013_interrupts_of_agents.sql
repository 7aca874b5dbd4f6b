-- Open interrupts after a commit of a run: its RUN_STARTED answers the ids in `answers`; the run ends with `status` (NULL: it
-- does not), and may request others (`requested`: {place, body} by id). Answers count once the run has ended without an
-- error; those of a failed run are forgotten. An interrupt that is open already stays as it is, but for the one of a producer
-- whose id an agent requests: it becomes the agent's. 256 and 65536, MAX_OPEN_INTERRUPTS and MAX_LISTED_INTERRUPTS_BYTES,
-- count for an agent those of agents alone, so that no producer keeps its interrupts from the list. The memory store has the
-- same as a function in Rust.
CREATE OR REPLACE FUNCTION threadline_interrupts(
  open jsonb, run text, author text, answers text, status bigint, requested text, seq bigint, at bigint
) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  WITH kept AS (
    SELECT i.key, CASE
        WHEN $5 IN (3, 5) AND i.value ->> 'answeredIn' = $2 THEN i.value - 'answeredIn'
        WHEN $5 IS NULL AND $4::jsonb ? i.key THEN i.value || jsonb_build_object('answeredIn', $2)
        ELSE i.value
      END AS value, coalesce($3 LIKE 'agent:%', FALSE) <= coalesce(i.value ->> 'author' LIKE 'agent:%', FALSE) AS counts
    FROM jsonb_each($1) AS i
    WHERE NOT (coalesce($5, 0) IN (2, 4)
        AND (coalesce(i.value ->> 'answeredIn' = $2, FALSE) OR coalesce($4::jsonb ? i.key, FALSE)))
      AND NOT (coalesce($3 LIKE 'agent:%', FALSE) > coalesce(i.value ->> 'author' LIKE 'agent:%', FALSE)
        AND coalesce($6::jsonb ? i.key, FALSE))
  ), added AS (
    SELECT r.key, r.value || jsonb_build_object('run', $2, 'author', $3, 'seq', $7, 'at', $8) AS value
    FROM jsonb_each($6::jsonb) AS r
    WHERE NOT EXISTS (SELECT 1 FROM kept WHERE kept.key = r.key)
      AND (SELECT count(*) < 256 AND coalesce(sum(octet_length(value ->> 'body')), 0) < 65536 FROM kept WHERE counts)
  )
  SELECT jsonb_object_agg(key, value) FROM (SELECT key, value FROM kept UNION ALL SELECT key, value FROM added) AS i
$$;
