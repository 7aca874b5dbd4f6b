-- Notes up to which seq sealing has decided.
-- Caller: decide in src/sqlite/seal.rs
-- ?1 key integer
-- ?2 upto integer
-- example: 1, 2

INSERT INTO sealing (key, upto)
SELECT ?1, ?2
WHERE EXISTS (SELECT 1 FROM heads WHERE key = ?1)
ON CONFLICT (key) DO UPDATE SET upto = max(upto, excluded.upto)
