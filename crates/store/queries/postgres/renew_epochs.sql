-- Gives heads new epochs. An epoch is a positive number of 62 bits.
-- Caller: renew_epochs in src/postgres/transfer.rs
-- $1 after bigint: key
-- $2 limit bigint
-- example: 0, 10

UPDATE heads
SET epoch = ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387903
WHERE key IN (SELECT key FROM heads WHERE key > $1 ORDER BY key LIMIT $2)
RETURNING key
