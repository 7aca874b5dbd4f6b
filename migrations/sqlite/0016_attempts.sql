-- Id of the present attempt at a run of a producer, as the process that produces it has named it: its repeated start is known by
-- it. The row of such a turn also has the number of the attempt, and the seq after the events that the run began with.
ALTER TABLE turns ADD COLUMN attempt_id TEXT;
