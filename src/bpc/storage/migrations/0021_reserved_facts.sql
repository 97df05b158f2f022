-- Facts that are made when a snapshot is sealed, such as where each value is from. They are neither listed nor counted.
ALTER TABLE snapshot_items ADD COLUMN is_reserved boolean NOT NULL DEFAULT false;
