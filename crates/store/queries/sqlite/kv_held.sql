-- Reads a key-value entry that is about to be written: its tag, its value and its bytes, the time at which it was stored first,
-- whether it is there for readers, and whether its removal is remembered.
-- Caller: held in src/sqlite/kv.rs
-- ?1 now integer: the time
-- ?2 project text
-- ?3 owner text: user, or empty
-- ?4 ns text
-- ?5 key text
-- example: 0, 'p', 'u', '', 'k'

SELECT kv.tag, kv.value, kv.size, kv.created_at, (kv.expires_at IS NULL OR kv.expires_at > ?1)
  AND (kv.thread IS NULL OR EXISTS (SELECT 1 FROM heads h WHERE h.key = kv.thread)), kv.removed_until IS NOT NULL
FROM kv
WHERE kv.project = ?2 AND kv.owner = ?3 AND kv.ns = ?4 AND kv.key = ?5
