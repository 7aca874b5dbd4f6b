-- Branches of a conversation: threads whose logs begin alike have the same family, and lists show one of them. A fork says from
-- which thread, epoch and seq its first events are.
ALTER TABLE threads
  ADD COLUMN family       bigint,
  ADD COLUMN listed       boolean NOT NULL DEFAULT TRUE,
  ADD COLUMN forked_thread text COLLATE "C",
  ADD COLUMN forked_epoch bigint,
  ADD COLUMN forked_seq   bigint;
CREATE INDEX threads_family ON threads (project, user_id, family) WHERE family IS NOT NULL AND deleted = 0;

-- Lists one branch of a family and no other: the given one, or, without a key, the one that is listed, else the one used last. The
-- lock comes first, in a statement of its own: the second statement then sees what others have chosen before. Answers with the keys
-- of the threads that changed.
CREATE FUNCTION threadline_list_branch(of_project text, of_user text, of_family bigint, chosen bigint) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(of_family);
  RETURN QUERY
    WITH pick AS (
      SELECT p.key FROM threads p
      WHERE p.project = of_project AND p.user_id = of_user AND p.family = of_family AND p.deleted = 0
        AND (chosen IS NULL OR p.key = chosen)
      ORDER BY p.listed DESC, p.sort_at DESC, p.key DESC LIMIT 1
    )
    UPDATE threads AS t SET listed = t.key = pick.key, version = t.version + 1 FROM pick
    WHERE t.project = of_project AND t.user_id = of_user AND t.family = of_family AND t.deleted = 0
      AND t.listed <> (t.key = pick.key)
    RETURNING t.key;
END $$;

-- A program before this step would list every branch.
UPDATE threadline_schema SET min_reader = 15;
