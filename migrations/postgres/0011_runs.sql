-- Fence of the newest run's driver; 0: the server does not drive the run. A write carries it, so that nobody but the driver
-- of a run writes into it. In no index, so that appends stay HOT.
ALTER TABLE heads ADD COLUMN driver_fence bigint NOT NULL DEFAULT 0;
-- Number of the run's newest attempt. NULL: 1.
ALTER TABLE runs ADD COLUMN attempt bigint;

-- A driven turn can be taken over: the node that drives it (NULL: none), the fence of that driver, the number of its
-- attempt and the seq of the attempt's first event, the number of attempts in a row that were lost without an event that is
-- kept, whether the agent was called, and the input that the agent is called with, sealed like a secret. A run that is active now has none,
-- and ends with its lease.
ALTER TABLE turns ADD COLUMN driven boolean NOT NULL DEFAULT FALSE;
ALTER TABLE turns ADD COLUMN driver text COLLATE "C";
ALTER TABLE turns ADD COLUMN driver_fence bigint NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN attempt bigint NOT NULL DEFAULT 1;
ALTER TABLE turns ADD COLUMN attempt_seq bigint NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN futile bigint NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN called boolean NOT NULL DEFAULT FALSE;
ALTER TABLE turns ADD COLUMN input text;
CREATE INDEX turns_driver ON turns (driver, key) WHERE driven AND check_at IS NOT NULL;

-- The newest run of a thread: its status (that of `runs`; 0 while it is active), its id and its error code; NULL: there was
-- none. Start and end of a run write them with `last_run_at`, which is the time of its end once it has ended.
ALTER TABLE threads ADD COLUMN last_status bigint;
ALTER TABLE threads ADD COLUMN last_run text COLLATE "C";
ALTER TABLE threads ADD COLUMN last_error text;
UPDATE threads AS t SET last_status = r.status, last_run = r.id, last_error = r.error_code
FROM (SELECT DISTINCT ON (key) key, status, id, error_code FROM runs ORDER BY key, fence DESC) AS r
WHERE r.key = t.key;
-- For lists of threads whose last run failed: error or abandoned. Only a failure puts an entry here. Active runs are found by
-- `turns_active`.
CREATE INDEX threads_failed ON threads (project, user_id, sort_at DESC, id) WHERE deleted = 0 AND last_status IN (3, 5);
CREATE INDEX threads_failed_created ON threads (project, user_id, created_at, id) WHERE deleted = 0 AND last_status IN (3, 5);

-- A program before this step writes without these.
UPDATE threadline_schema SET min_reader = 11;
