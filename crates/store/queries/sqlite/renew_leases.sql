-- Renews leases after the clock was set: gives a full one to each active run whose lease ends later than any heartbeat can
-- have moved it, and on request to each whose lease is short. Answers with the keys. The reaper looks no later than needed.
-- Caller: renew_page in src/sqlite/leases.rs
-- ?1 now integer: the time
-- ?2 after integer: key
-- ?3 limit integer
-- ?4 short integer: 1 to renew short leases as well
-- ?5 slack integer: CLOCK_STEP in ms
-- ?6 grace integer: RELEASE_GRACE in ms, the full lease of a run that is finishing
-- ?7 stop_grace integer: STOP_GRACE in ms
-- example: 0, 0, 10, 1, 5000, 5000, 10000

UPDATE heads AS h
SET lease_until = ?1 + CASE WHEN h.finishing THEN min(h.lease_ms, ?6) ELSE h.lease_ms END,
  stop_at = CASE WHEN ?4 AND h.stop_at IS NOT NULL THEN ?1 ELSE min(h.stop_at, ?1) END
FROM (SELECT key FROM turns WHERE place IS NULL AND key > ?2 ORDER BY key LIMIT ?3) AS page
WHERE h.key = page.key AND h.run IS NOT NULL
  AND (h.lease_until > ?1 + ?5 + CASE WHEN h.finishing THEN min(h.lease_ms, ?6) ELSE h.lease_ms END
       OR coalesce(h.stop_at > ?1 + ?5, FALSE)
       OR (?4 AND h.lease_until < ?1 - ?5 + CASE WHEN h.finishing THEN min(h.lease_ms, ?6) ELSE h.lease_ms END))
RETURNING key;
UPDATE turns AS t SET check_at = min(h.lease_until, coalesce(h.stop_at + ?7, h.lease_until))
FROM heads h
WHERE t.place IS NULL AND t.key > ?2 AND h.key = t.key
  AND t.key IN (SELECT key FROM turns WHERE place IS NULL AND key > ?2 ORDER BY key LIMIT ?3)
  AND t.check_at > min(h.lease_until, coalesce(h.stop_at + ?7, h.lease_until))
