-- Queue of turns that wait for the active run: a version that grows with each change, their number, and why the queue rests
-- (1 a stop, 2 an error, 3 a person; NULL: it moves).
ALTER TABLE heads ADD COLUMN queue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE heads ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE heads ADD COLUMN held INTEGER;
-- For queues that move, which a free thread goes on with.
CREATE INDEX heads_queued ON heads (key) WHERE queued > 0 AND held IS NULL AND key > 0;

-- A queued turn has a place from 1 and no time at which the reaper looks. Its input is what the client sent, sealed. It names who
-- asked and with which API key, so that turns of a revoked key are dropped. An item becomes the turn of its run in the
-- commit that begins this: then it has no place, no driver, and 0 attempts until a node has called the agent.
ALTER TABLE turns ADD COLUMN asked_by TEXT;
ALTER TABLE turns ADD COLUMN by_key TEXT;
CREATE INDEX turns_queued ON turns (project, user) WHERE place > 0;

-- A program before this step would end runs without their queue.
UPDATE threadline_schema SET min_reader = 14;
