-- Claims of tool calls: which client runs the tool. Goes with its thread, or with the run that brings the result.
CREATE TABLE tool_claims (
  key    INTEGER NOT NULL,
  call   TEXT    NOT NULL,
  -- Client that holds the call.
  holder TEXT    NOT NULL,
  -- End of the lease.
  until  INTEGER NOT NULL,
  PRIMARY KEY (key, call)
);
CREATE INDEX tool_claims_over ON tool_claims (until);
