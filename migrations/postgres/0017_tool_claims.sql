-- Claims of tool calls: which client runs the tool. Goes with its thread, or with the run that brings the result.
CREATE TABLE tool_claims (
  key    bigint NOT NULL,
  call   text COLLATE "C" NOT NULL,
  -- Client that holds the call.
  holder text COLLATE "C" NOT NULL,
  -- End of the lease.
  until  bigint NOT NULL,
  PRIMARY KEY (key, call)
);
CREATE INDEX tool_claims_over ON tool_claims (until);
