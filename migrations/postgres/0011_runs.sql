-- Fence of the newest run's driver; 0: the server does not drive the run. A write carries it, so that nobody but the driver
-- of a run writes into it. In no index, so that appends stay HOT.
ALTER TABLE heads ADD COLUMN driver_fence bigint NOT NULL DEFAULT 0;
-- A program before this step writes without it.
UPDATE threadline_schema SET min_reader = 11;
