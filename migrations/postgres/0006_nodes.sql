-- One row per node: the beat that a node commits every second. A random id names a process, so a restart is a new
-- row. Half of a page stays free, so that a beat rewrites its row in place (HOT).
CREATE TABLE nodes (
  id         text COLLATE "C" PRIMARY KEY,
  name       text NOT NULL,
  version    text NOT NULL,
  started_at bigint NOT NULL,
  beat       bigint NOT NULL,
  at         bigint NOT NULL,
  leaving    boolean NOT NULL DEFAULT FALSE,
  skew_ms    bigint,
  rtt_us     bigint
) WITH (fillfactor = 50);
