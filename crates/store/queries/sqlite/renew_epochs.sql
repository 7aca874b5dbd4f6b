-- Gives heads new epochs. An epoch is a positive number of 62 bits.
-- Caller: renew_epochs in src/sqlite/transfer.rs
-- ?1 after integer: key
-- ?2 limit integer
-- example: 0, 10

UPDATE heads
SET epoch = random() & 0x3fffffffffffffff
WHERE key IN (SELECT key FROM heads WHERE key > ?1 ORDER BY key LIMIT ?2)
RETURNING key
