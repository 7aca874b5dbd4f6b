-- Open interrupts of the thread: an object of {place, body, run, author, seq, at, answeredIn} by id; NULL: none is open.
-- Starts and ends of runs change it in their own statement, so it follows the log. In the row, so that trash, purge, erasure
-- and backups need to know nothing of it; in no list but that of a thread's interrupts.
ALTER TABLE threads ADD COLUMN interrupts TEXT;
-- For lists of threads that wait for an answer.
CREATE INDEX threads_waiting ON threads (project, user, sort_at DESC, id) WHERE deleted = 0 AND interrupts IS NOT NULL;
CREATE INDEX threads_waiting_created ON threads (project, user, created_at, id)
  WHERE deleted = 0 AND interrupts IS NOT NULL;

-- A program before this step writes without these.
UPDATE threadline_schema SET min_reader = 13;
