-- Reads the end of the lease of a claim, NULL if nobody has claimed the call. No row if the thread is gone.
-- Caller: claim_tool_call in src/sql/tables/tool_claims.rs
-- ?1 key integer
-- ?2 call text
-- example: 1, 'c'

SELECT t.until FROM heads h
LEFT JOIN tool_claims t ON t.key = h.key AND t.call = ?2
WHERE h.key = ?1
