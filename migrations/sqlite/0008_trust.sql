-- Mode of the server that made a key: 'authenticated', or 'development', in which every caller may make keys, so that no other
-- server accepts them.
ALTER TABLE api_keys ADD COLUMN born TEXT NOT NULL DEFAULT 'authenticated';
