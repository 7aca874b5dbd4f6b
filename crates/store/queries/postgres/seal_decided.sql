-- Notes up to which seq sealing has decided.
-- Caller: decide in src/postgres/seal.rs
-- $1 key bigint
-- $2 upto bigint
-- example: 1, 2

INSERT INTO sealing AS s (key, upto)
SELECT h.key, $2::bigint FROM heads h
WHERE h.key = $1::bigint
FOR KEY SHARE
ON CONFLICT (key) DO UPDATE SET upto = greatest(s.upto, excluded.upto)
