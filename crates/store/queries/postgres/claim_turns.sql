-- Makes a node the driver of turns that have none: given up, of nodes whose last beat is old, or of tasks that the node
-- itself has lost. The fence of the driver before stays, until the turn is taken. Answers with the turns and the driver
-- before. The statement waits for no lock, and finds the drivers by jumps through the index.
-- Caller: claim_turns in src/postgres/turns.rs
-- $1 now bigint: the time of a manual clock, or NULL for the database's
-- $2 node text
-- $3 judges boolean: whether turns of other nodes are looked at
-- $4 age bigint: DRIVER_TTL in ms
-- $5 own bigint[]: threads whose turns the node has lost
-- $6 limit bigint
-- example: NULL, '0123456789abcdef', TRUE, 4000, '{}', 10

WITH RECURSIVE
-- <fragment now>
c AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now)
-- </fragment>
, drivers (id) AS (
  SELECT min(t.driver) FROM turns AS t WHERE $3::boolean AND t.driven AND t.check_at IS NOT NULL
  UNION ALL
  SELECT (SELECT min(t.driver) FROM turns AS t WHERE t.driven AND t.check_at IS NOT NULL AND t.driver > d.id)
  FROM drivers AS d WHERE d.id IS NOT NULL
), lost AS MATERIALIZED (
  SELECT d.id FROM drivers AS d CROSS JOIN c
  WHERE d.id <> $2::text
    AND coalesce(abs(c.now - (SELECT n.at FROM nodes AS n WHERE n.id = d.id)) >= $4::bigint, TRUE)
), given_up AS MATERIALIZED (
  SELECT t.key, t.run, t.driver FROM turns AS t
  WHERE t.driven AND t.check_at IS NOT NULL AND t.driver IS NULL
  LIMIT $6::bigint FOR UPDATE SKIP LOCKED
), of_lost AS MATERIALIZED (
  SELECT t.key, t.run, t.driver FROM turns AS t
  WHERE t.driven AND t.check_at IS NOT NULL AND t.driver = ANY (ARRAY(SELECT id FROM lost))
  LIMIT $6 FOR UPDATE SKIP LOCKED
), of_node AS MATERIALIZED (
  SELECT t.key, t.run, t.driver FROM turns AS t
  WHERE t.driven AND t.check_at IS NOT NULL AND t.driver = $2 AND t.key = ANY ($5::bigint[])
  LIMIT $6 FOR UPDATE SKIP LOCKED
), taken AS (
  SELECT * FROM given_up UNION ALL SELECT * FROM of_lost UNION ALL SELECT * FROM of_node LIMIT $6
), mine AS (
  UPDATE turns AS t SET driver = $2
  FROM taken
  WHERE t.key = taken.key AND t.run = taken.run
  RETURNING t.*, taken.driver AS before
)
SELECT m.key, t.project, t.user_id, t.id, m.run, m.agent, m.driver_fence, m.attempt, m.attempt_seq, m.futile, m.called, m.input,
  m.before
FROM mine AS m
JOIN threads AS t ON t.key = m.key
