-- Up to where its owner has read a thread; 0: never. Not beyond the tail.
ALTER TABLE threads ADD COLUMN read_seq bigint NOT NULL DEFAULT 0;
