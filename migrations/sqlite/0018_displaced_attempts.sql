-- Ids of attempts at this run that were displaced, the newest ones, one a line: a late repetition of such a start takes nothing up.
ALTER TABLE turns ADD COLUMN displaced TEXT;
