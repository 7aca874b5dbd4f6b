-- Inserts the runs of a staged thread.
-- Caller: put in src/sqlite/staging.rs
-- ?1 key integer
-- ?2 runs text: [[fence, id, agent, status, …], …] in the order of the INSERT
-- example: 1, '[[1,"r",null,2,null,null,null,1,1,0,0,null,null,null,null,1]]'

INSERT INTO runs (
  key, fence, id, agent, status, error_code, error_message, usage, first_seq, producer_seq, started_at, ended_at,
  stop_at, driven, author, asked_by, attempt
)
SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12,
  value ->> 13, value ->> 14, value ->> 15
FROM jsonb_each(?2)
