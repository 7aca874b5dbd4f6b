-- True for a run that the server drives, so that its driver alone writes into it. NULL: no, or begun before this column.
ALTER TABLE runs ADD COLUMN driven INTEGER;
