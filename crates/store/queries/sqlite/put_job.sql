-- Puts a job that is due after a time, in place of the one there is or only if there is none. Answers with a row if it did.
-- Caller: put_job in src/sql/tables/jobs.rs
-- ?1 now integer: the time
-- ?2 kind text
-- ?3 ref text
-- ?4 after integer: in ms
-- ?5 anew integer: 1 to replace a job
-- example: 0, 'clock-step', '', 60000, 1

INSERT INTO jobs (kind, ref, due_at) VALUES (?2, ?3, ?1 + ?4)
ON CONFLICT (kind, ref) DO UPDATE SET due_at = excluded.due_at, tries = 0 WHERE ?5 > 0
RETURNING ref
