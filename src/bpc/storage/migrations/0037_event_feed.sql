-- locks: events: an index over three columns of each event, built in seconds to a few minutes
-- The transaction that recorded an event. Who follows events reads those of transactions that ended before the oldest one
-- that still runs: an event that is committed late is never passed over, and none comes twice. Events that were there
-- before all count as recorded by this migration, in the order of their times.
ALTER TABLE events ADD COLUMN recorded_in xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX events_in_recorded_order ON events (tenant_id, recorded_in, occurred_at, event_id);
