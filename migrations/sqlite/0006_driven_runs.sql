-- Whether the server itself drives the run, so that nobody else writes into it. NULL: no, or begun before this column.
ALTER TABLE runs ADD COLUMN driven INTEGER;
