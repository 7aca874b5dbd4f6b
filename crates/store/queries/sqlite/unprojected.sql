-- Measures the events after the newest snapshot. The statement walks over the log's rows by key, without their
-- bodies: a row that spans the snapshot counts by the share of its events that come after it.
-- Caller: unprojected in src/sql/tables/snapshots.rs
-- ?1 key integer
-- ?2 version integer
-- example: 1, 1

SELECT coalesce(s.seq, 0), coalesce(s.raw, 0), h.tail - coalesce(s.seq, 0),
  (
    SELECT coalesce(sum(l.raw * (l.last_seq - max(l.first_seq - 1, coalesce(s.seq, 0))) / (l.last_seq - l.first_seq + 1)), 0)
    FROM log l
    WHERE l.key = ?1 AND l.last_seq > coalesce(s.seq, 0)
      AND l.first_seq >= coalesce(
        (SELECT max(first_seq) FROM log WHERE key = ?1 AND first_seq <= coalesce(s.seq, 0) + 1), 0
      )
  )
FROM heads h
LEFT JOIN (
  SELECT key, seq, raw FROM snapshots WHERE key = ?1 AND version = ?2 ORDER BY seq DESC LIMIT 1
) s ON s.key = h.key
WHERE h.key = ?1
