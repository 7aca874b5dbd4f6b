-- Stages a thread that is imported or forked. `fed_version` equals the version, so that the feed owes a staged thread no position.
-- Caller: stage in src/sqlite/staging.rs
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
-- ?17 family integer: or NULL
-- ?18 listed integer
-- ?19 forked_thread text: thread that was forked, or NULL
-- ?20 forked_epoch integer
-- ?21 forked_seq integer
-- ?22 request text: idempotency key of the fork, or NULL
-- example: 'p', 't', 'u', NULL, NULL, NULL, 0, '{}', 0, 0, NULL, 1, '{}', 0, 0, 1, NULL, 1, NULL, NULL, NULL, NULL

INSERT INTO threads (
  project, id, user, agent, name, name_source, archived, metadata, created_at, updated_at, last_run_at, version,
  fed_version, created_with, sort_at, read_seq, claimed, deleted,
  family, listed, forked_thread, forked_epoch, forked_seq, request
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, ?16, 3, ?17, ?18, ?19, ?20, ?21, ?22)
RETURNING key
