-- Creates a thread, inside a transaction that has found the id free.
-- Caller: create_thread in src/sqlite/threads.rs
-- ?1 project text
-- ?2 thread text: id of the thread
-- ?3 user text
-- ?4 agent text
-- ?5 name text
-- ?6 name_source integer
-- ?7 metadata text
-- ?8 now integer: the time
-- ?9 created_with text
-- ?10 epoch integer
-- ?11 request text: the idempotency key of the request, or NULL
-- ?12 claimed integer
-- example: 'p', 't', 'u', NULL, 'A name', 0, '{}', 0, '{}', 7, NULL, 1

INSERT INTO threads (
  project, id, user, agent, name, name_source, metadata, created_at, updated_at, sort_at, version, created_with,
  request, claimed
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8, 1, ?9, ?11, ?12);
INSERT INTO heads (key, epoch, generation)
VALUES (last_insert_rowid(), ?10, (SELECT max(generation) FROM lineage))
RETURNING key
