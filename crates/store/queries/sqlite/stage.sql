-- Stages an imported thread. `fed_version` equals the version, so that the feed owes a staged thread no position.
-- Caller: stage in src/sqlite/transfer.rs
-- ?1 project text
-- ?2 thread text: id of the thread
-- ?3 user text
-- ?4 agent text
-- ?5 name text
-- ?6 name_source integer
-- ?7 archived integer
-- ?8 metadata text
-- ?9 created_at integer
-- ?10 updated_at integer
-- ?11 last_run_at integer
-- ?12 version integer
-- ?13 created_with text
-- ?14 now integer: the time
-- ?15 read_seq integer
-- ?16 claimed integer
-- example: 'p', 't', 'u', NULL, NULL, NULL, 0, '{}', 0, 0, NULL, 1, '{}', 0, 0, 1

INSERT INTO threads (
  project, id, user, agent, name, name_source, archived, metadata, created_at, updated_at, last_run_at, version,
  fed_version, created_with, sort_at, read_seq, claimed, deleted
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, ?16, 3)
RETURNING key
