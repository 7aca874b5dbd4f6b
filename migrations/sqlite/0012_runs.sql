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

-- A program before this step writes without these.
UPDATE threadline_schema SET min_reader = 12;
