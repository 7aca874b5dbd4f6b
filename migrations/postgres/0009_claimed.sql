-- Ids of threads in the space of their user: false for a thread that an untrusted client made, which meets only ids of its own
-- user. A claimed thread has its id in the whole project, as all threads before this step.
ALTER TABLE threads ADD COLUMN claimed boolean NOT NULL DEFAULT TRUE;
CREATE UNIQUE INDEX threads_of_user ON threads (project, user_id, id) WHERE deleted = 0;
CREATE UNIQUE INDEX threads_claimed ON threads (project, id) WHERE deleted = 0 AND claimed;
-- For a caller that names no user: the only thread of an id is found, or that there are several.
CREATE INDEX threads_unclaimed ON threads (project, id) WHERE deleted = 0 AND NOT claimed;
-- A program before this step names the index in its creation, and takes the first thread of an id for the only one.
DROP INDEX threads_by_id;
UPDATE threadline_schema SET min_reader = 9;

-- Threads of several users with one id may be put in the trash at one time.
DROP INDEX threads_trash;
CREATE INDEX threads_trash ON threads (project, trashed_at DESC, id, user_id) WHERE deleted = 4;
