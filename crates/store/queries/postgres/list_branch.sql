-- Lists one thread of a family and no other. Answers with the keys of the threads that changed.
-- Caller: list_branch in src/sql/tables/branches.rs
-- $1 project text
-- $2 user text
-- $3 family bigint
-- $4 key bigint: of the thread; NULL for the listed one, else the one used last
-- example: 'p', 'u', 1, NULL

SELECT threadline_list_branch($1::text, $2::text, $3::bigint, $4::bigint)
