-- Ids of attempts at this run that were displaced, the newest ones, one a line: a late repetition of such a start takes nothing up.
ALTER TABLE turns ADD COLUMN displaced text COLLATE "C";

-- The first attempt at a producer's run that began in a later generation than the first has the first number of that generation.
UPDATE turns SET
  attempt = (SELECT (r.fence >> 32) * 1000000 + 1 FROM runs r WHERE r.key = turns.key AND r.id = turns.run),
  driver_fence = (SELECT -1000000 * (r.fence >> 32) FROM runs r WHERE r.key = turns.key AND r.id = turns.run)
WHERE NOT driven AND attempt = 1 AND EXISTS (
  SELECT 1 FROM runs r WHERE r.key = turns.key AND r.id = turns.run AND r.attempt IS NULL AND r.driven IS NOT TRUE AND r.fence >= 4294967296
);
UPDATE heads SET driver_fence = -1000000 * (fence >> 32) WHERE active AND driver_fence = 0 AND fence >= 4294967296;
UPDATE runs SET attempt = (fence >> 32) * 1000000 + 1 WHERE attempt IS NULL AND driven IS NOT TRUE AND fence >= 4294967296;
-- A program before this step would give other numbers.
UPDATE threadline_schema SET min_reader = 18;
