-- Rows of agent data count their names, and a fixed number of bytes each. Operations on item lists count as well.
UPDATE kv SET size = size + 128 + octet_length(ns) + octet_length(key) + octet_length(tag);
UPDATE items SET size = size + 128 + octet_length(list);
ALTER TABLE item_ops ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE item_ops SET size = 128 + octet_length(list) + octet_length(op) + octet_length(answer);
UPDATE checkpoints SET size = size + 128;
UPDATE checkpoint_blobs SET size = size + 128;
UPDATE checkpoint_writes SET size = size + 128;
UPDATE agent_data SET bytes = coalesce((SELECT sum(size) FROM items WHERE items.key = agent_data.key), 0)
  + coalesce((SELECT sum(size) FROM item_ops WHERE item_ops.key = agent_data.key), 0)
  + coalesce((SELECT sum(size) FROM checkpoints WHERE checkpoints.key = agent_data.key), 0)
  + coalesce((SELECT sum(size) FROM checkpoint_blobs WHERE checkpoint_blobs.key = agent_data.key), 0)
  + coalesce((SELECT sum(size) FROM checkpoint_writes WHERE checkpoint_writes.key = agent_data.key), 0);
-- Time in ms after which a key-value entry expires when it is touched.
ALTER TABLE kv ADD COLUMN life INTEGER;
UPDATE kv SET life = expires_at - updated_at WHERE expires_at > updated_at;
-- Time in ms until which the removal of an entry is remembered. The row has the tag of the removal, no value, and an expiry in the past.
ALTER TABLE kv ADD COLUMN removed_until INTEGER;
DROP INDEX kv_expiring;
CREATE INDEX kv_over ON kv (coalesce(removed_until, expires_at)) WHERE expires_at IS NOT NULL;

-- Blobs that no checkpoint may name: new ones, and those of a replaced checkpoint. A blob that is still unnamed after an hour is removed.
CREATE TABLE loose_blobs (
  key     INTEGER NOT NULL,
  ns      TEXT NOT NULL,
  channel TEXT NOT NULL,
  version TEXT NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (key, ns, channel, version)
);
CREATE INDEX loose_blobs_old ON loose_blobs (at);
INSERT INTO loose_blobs (key, ns, channel, version, at) SELECT key, ns, channel, version, 0 FROM checkpoint_blobs;

-- A program before this step would count less, and remember no removal.
UPDATE threadline_schema SET min_reader = 20;
