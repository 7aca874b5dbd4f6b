-- Author of a run, and the caller that asked for it: `agent:<id>`, `key:<id>`, `user:<id>`, `operator`, `development`. NULL for
-- a run that began before these columns.
ALTER TABLE runs ADD COLUMN author TEXT;
ALTER TABLE runs ADD COLUMN asked_by TEXT;

-- The scope `write` was divided, into names that programs before this step do not know.
UPDATE api_keys SET scopes = trim(replace(' ' || scopes || ' ', ' write ', ' chat approve produce '))
WHERE ' ' || scopes || ' ' LIKE '% write %';

-- Secrets of the store itself. `digests` is the root of keyed digests, sealed like the secrets of projects and the definitions
-- of agents, which programs before this version cannot open.
CREATE TABLE secrets (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

UPDATE threadline_schema SET min_reader = 8;

-- Mode of the server that made a key: 'authenticated', or 'development', in which every caller may make keys, so that no other
-- server accepts them.
ALTER TABLE api_keys ADD COLUMN born TEXT NOT NULL DEFAULT 'authenticated';
