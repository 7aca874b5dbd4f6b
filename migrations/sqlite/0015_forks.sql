-- Branches of a conversation: threads whose logs begin alike have the same family, and lists show one of them. A fork says from
-- which thread, epoch and seq its first events are.
ALTER TABLE threads ADD COLUMN family INTEGER;
ALTER TABLE threads ADD COLUMN listed INTEGER NOT NULL DEFAULT 1;
ALTER TABLE threads ADD COLUMN forked_thread TEXT;
ALTER TABLE threads ADD COLUMN forked_epoch INTEGER;
ALTER TABLE threads ADD COLUMN forked_seq INTEGER;
CREATE INDEX threads_family ON threads (project, user, family) WHERE family IS NOT NULL AND deleted = 0;

-- A program before this step would list every branch.
UPDATE threadline_schema SET min_reader = 15;
