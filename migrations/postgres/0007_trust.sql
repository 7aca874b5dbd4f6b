-- Author of a run, and the caller that asked for it: `agent:<id>`, `key:<id>`, `user:<id>`, `operator`, `development`. NULL for
-- a run that began before these columns.
ALTER TABLE runs
  ADD COLUMN author   text COLLATE "C",
  ADD COLUMN asked_by text COLLATE "C";

-- The scope `write` was divided, into names that programs before this step do not know.
UPDATE api_keys SET scopes = trim(replace(' ' || scopes || ' ', ' write ', ' chat approve produce '))
WHERE ' ' || scopes || ' ' LIKE '% write %';

-- Secrets of the store itself. `digests` is the root of keyed digests, sealed like the secrets of projects and the definitions
-- of agents once a node has keys; programs before this version cannot open them.
CREATE TABLE secrets (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

UPDATE threadline_schema SET min_reader = 7;

-- Mode of the server that made a key: 'authenticated', or 'development', in which every caller may make keys, so that no other
-- server accepts them.
ALTER TABLE api_keys ADD COLUMN born text NOT NULL DEFAULT 'authenticated';

-- However few projects the planner has seen: the active runs of one are found by its own index, not among those of all.
ALTER TABLE turns ALTER COLUMN project SET (n_distinct = 10000);
