-- Claims a tool call if no other client holds it, and removes a few claims whose lease is over. The lock of the head prevents a
-- deletion of the thread meanwhile, and no append waits for it. Others that claim the same call wait for its row. Answers with the
-- end of the lease if the client holds the call now; a client that holds it already keeps at least the lease that it has. Removed are claims of other calls that nobody has locked, so that no node
-- waits for another one.
-- Caller: claim_tool_call in src/sql/tables/tool_claims.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 key bigint
-- $3 call text
-- $4 holder text: client
-- $5 lease bigint: in ms
-- $6 horizon bigint: in ms from now, beyond which a claim is over
-- $7 limit bigint: claims to remove
-- example: NULL, 1, 'c', 'tab', 30000, 300000, 4

WITH
-- <fragment clock>
c AS MATERIALIZED (
  SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, l.generation, l.nonce
  FROM threadline_lineage() AS l
)
-- </fragment>
, old AS MATERIALIZED (
  SELECT t.key, t.call FROM tool_claims t
  WHERE t.until <= (SELECT now FROM c) AND (t.key, t.call) <> ($2::bigint, $3::text)
  ORDER BY t.until LIMIT $7::bigint FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM tool_claims t USING old WHERE t.key = old.key AND t.call = old.call
), thread AS MATERIALIZED (
  SELECT h.key FROM heads h WHERE h.key = $2 FOR KEY SHARE
)
INSERT INTO tool_claims AS t (key, call, holder, until)
SELECT thread.key, $3, $4::text, c.now + $5::bigint FROM thread CROSS JOIN c
ON CONFLICT (key, call) DO UPDATE SET holder = excluded.holder, until = CASE
  WHEN t.holder = excluded.holder AND t.until <= excluded.until - $5 + $6::bigint THEN greatest(t.until, excluded.until)
  ELSE excluded.until
END
WHERE t.holder = excluded.holder OR t.until <= excluded.until - $5 OR t.until > excluded.until - $5 + $6
RETURNING t.until
