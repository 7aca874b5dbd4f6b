-- Makes a job whose claim is still the caller's due after a time.
-- Caller: end_job in src/sql/tables/jobs.rs
-- ?1 now integer: the time
-- ?2 kind text
-- ?3 ref text
-- ?4 until integer: end of the claim
-- ?5 delay integer: in ms
-- ?6 tries integer: kept from now on
-- example: 0, 'pack', '1', 60000, 1000, 0

UPDATE jobs SET due_at = ?1 + ?5, tries = ?6 WHERE kind = ?2 AND ref = ?3 AND due_at = ?4
RETURNING ref
