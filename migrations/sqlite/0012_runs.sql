-- Fence of the newest run's driver; 0: the server does not drive the run. A write carries it, so that nobody but the driver
-- of a run writes into it.
ALTER TABLE heads ADD COLUMN driver_fence INTEGER NOT NULL DEFAULT 0;
-- Number of the run's newest attempt. NULL: 1.
ALTER TABLE runs ADD COLUMN attempt INTEGER;

-- A driven turn can be taken over: the node that drives it (NULL: none), the fence of that driver, the number of its
-- attempt and the seq of the attempt's first event, the number of attempts in a row that were lost without an event that is
-- kept, whether the agent was called, and the input that the agent is called with, sealed like a secret. A run that is active now has none,
-- and ends with its lease.
ALTER TABLE turns ADD COLUMN driven INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN driver TEXT;
ALTER TABLE turns ADD COLUMN driver_fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE turns ADD COLUMN attempt_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN futile INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN called INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN input TEXT;
CREATE INDEX turns_driver ON turns (driver, key) WHERE driven = TRUE AND check_at IS NOT NULL;

-- The newest run of a thread: its status (that of `runs`; 0 while it is active), its id and its error code; NULL: there was
-- none. Start and end of a run write them with `last_run_at`, which is the time of its end once it has ended.
ALTER TABLE threads ADD COLUMN last_status INTEGER;
ALTER TABLE threads ADD COLUMN last_run TEXT;
ALTER TABLE threads ADD COLUMN last_error TEXT;
UPDATE threads SET (last_status, last_run, last_error) = (
  SELECT status, id, error_code FROM runs WHERE runs.key = threads.key ORDER BY fence DESC LIMIT 1
);
-- For lists of threads whose last run failed: error or abandoned. Only a failure puts an entry here. Active runs are found by
-- `turns_active`.
CREATE INDEX threads_failed ON threads (project, user, sort_at DESC, id) WHERE deleted = 0 AND last_status IN (3, 5);
CREATE INDEX threads_failed_created ON threads (project, user, created_at, id) WHERE deleted = 0 AND last_status IN (3, 5);

-- A program before this step writes without these.
UPDATE threadline_schema SET min_reader = 12;
