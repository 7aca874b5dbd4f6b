-- Looks at the turns whose time has come, and moves the time of each: of a run that was extended, to the end of its lease
-- or of its stop; of a run that is due, by the length of a claim. Answers with a row for each turn, which names the thread
-- of a due run.
-- Caller: claim_due in src/sqlite/runs.rs
-- ?1 now integer: the time
-- ?2 grace integer: STOP_GRACE in ms
-- ?3 claim integer: in ms
-- ?4 limit integer
-- example: 0, 10000, 2000, 10

SELECT t.key, t.project, t.user, t.id
FROM (SELECT key FROM turns WHERE place IS NULL AND check_at <= ?1 ORDER BY check_at, key, run LIMIT ?4) AS page
CROSS JOIN heads h ON h.key = page.key
LEFT JOIN threads t ON t.key = h.key AND min(h.lease_until, coalesce(h.stop_at + ?2, h.lease_until)) <= ?1;
UPDATE turns AS t SET check_at = CASE WHEN seen.until <= ?1 THEN ?1 + ?3 ELSE seen.until END
FROM (
  SELECT page.key, page.run, min(h.lease_until, coalesce(h.stop_at + ?2, h.lease_until)) AS until
  FROM (SELECT key, run FROM turns WHERE place IS NULL AND check_at <= ?1 ORDER BY check_at, key, run LIMIT ?4) AS page
  CROSS JOIN heads h ON h.key = page.key
) AS seen
WHERE t.key = seen.key AND t.run = seen.run
