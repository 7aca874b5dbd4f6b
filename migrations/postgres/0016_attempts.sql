-- Id of the present attempt at a run of a producer, as the process that produces it has named it: its repeated start is known by
-- it. The row of such a turn also has the number of the attempt, and the seq after the events that the run began with.
ALTER TABLE turns ADD COLUMN attempt_id text COLLATE "C";
-- Ids of attempts at this run that were displaced, the newest ones, one a line: a late repetition of such a start takes nothing up.
ALTER TABLE turns ADD COLUMN displaced text COLLATE "C";
