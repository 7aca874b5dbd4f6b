-- Removes a few claims whose lease is over, and claims a tool call if no other client holds it. Answers with the end of the lease
-- if the client holds the call now; a client that holds it already keeps at least the lease that it has.
-- Caller: claim_tool_call in src/sql/tables/tool_claims.rs
-- ?1 now integer
-- ?2 key integer
-- ?3 call text
-- ?4 holder text: client
-- ?5 lease integer: in ms
-- ?6 horizon integer: in ms from now, beyond which a claim is over
-- ?7 limit integer: claims to remove
-- example: 0, 1, 'c', 'tab', 30000, 300000, 4

DELETE FROM tool_claims
WHERE rowid IN (SELECT rowid FROM tool_claims WHERE until <= ?1 ORDER BY until LIMIT ?7);
INSERT INTO tool_claims AS t (key, call, holder, until)
SELECT ?2, ?3, ?4, ?1 + ?5
WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?2)
ON CONFLICT (key, call) DO UPDATE SET holder = excluded.holder, until = CASE
  WHEN t.holder = excluded.holder AND t.until <= ?1 + ?6 THEN max(t.until, excluded.until)
  ELSE excluded.until
END
WHERE t.holder = excluded.holder OR t.until <= ?1 OR t.until > ?1 + ?6
RETURNING until
