-- Stores a key-value entry, in place of one that there is.
-- Caller: put in src/sqlite/kv.rs
-- ?1 project text
-- ?2 owner text: user, or empty
-- ?3 ns text
-- ?4 key text
-- ?5 value blob
-- ?6 size integer: counted bytes of the entry
-- ?7 tag text
-- ?8 thread integer: with which the entry goes, or NULL
-- ?9 created_at integer
-- ?10 updated_at integer
-- ?11 expires_at integer: or NULL
-- ?12 life integer: TTL in ms that a touch refreshes, or NULL
-- example: 'p', 'u', '', 'k', '1', 1, 't', NULL, 0, 0, NULL, NULL

INSERT OR REPLACE INTO kv (project, owner, ns, key, value, size, tag, thread, created_at, updated_at, expires_at, life)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
