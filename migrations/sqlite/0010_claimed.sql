-- Claims of ids: 0 for a thread that an untrusted client created, whose id is unique among those of its user. A claimed id is
-- also unique among the claimed ids of the project, and so are the ids of all threads from before this step.
ALTER TABLE threads ADD COLUMN claimed INTEGER NOT NULL DEFAULT 1;
CREATE UNIQUE INDEX threads_of_user ON threads (project, user, id) WHERE deleted = 0;
CREATE UNIQUE INDEX threads_claimed ON threads (project, id) WHERE deleted = 0 AND claimed = 1;
-- Index for callers that name no user: it finds the only thread with an id, or that there are several.
CREATE INDEX threads_unclaimed ON threads (project, id) WHERE deleted = 0 AND claimed = 0;
-- Programs before this step take the first thread with an id for the only one.
DROP INDEX threads_by_id;
UPDATE threadline_schema SET min_reader = 10;

-- Positions in the trash have the user, since threads of several users with one id may be put there at one time.
DROP INDEX threads_trash;
CREATE INDEX threads_trash ON threads (project, trashed_at DESC, id, user) WHERE deleted = 4;
