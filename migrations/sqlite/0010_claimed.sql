-- Ids of threads in the space of their user: 0 for a thread that an untrusted client made, which meets only ids of its own
-- user. A claimed thread has its id in the whole project, as all threads before this step.
ALTER TABLE threads ADD COLUMN claimed INTEGER NOT NULL DEFAULT 1;
CREATE UNIQUE INDEX threads_of_user ON threads (project, user, id) WHERE deleted = 0;
CREATE UNIQUE INDEX threads_claimed ON threads (project, id) WHERE deleted = 0 AND claimed = 1;
-- For a caller that names no user: the only thread of an id is found, or that there are several.
CREATE INDEX threads_unclaimed ON threads (project, id) WHERE deleted = 0 AND claimed = 0;
-- A program before this step takes the first thread of an id for the only one.
DROP INDEX threads_by_id;
UPDATE threadline_schema SET min_reader = 10;

-- Threads of several users with one id may be put in the trash at one time.
DROP INDEX threads_trash;
CREATE INDEX threads_trash ON threads (project, trashed_at DESC, id, user) WHERE deleted = 4;
