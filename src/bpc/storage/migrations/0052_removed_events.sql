-- What an event leaves when retention removes it: its hash. The RetentionApplied event has the hash of the list, so nobody
-- adds to it or takes from it, and a checkpoint from before still finds every event that it names.
CREATE TABLE removed_events (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  aggregate_type     text NOT NULL,
  aggregate_id       uuid NOT NULL,
  aggregate_version  bigint NOT NULL CHECK (aggregate_version >= 1),
  event_hash         hash256 NOT NULL,
  removed_by         uuid NOT NULL,
  PRIMARY KEY (tenant_id, aggregate_type, aggregate_id, aggregate_version),
  FOREIGN KEY (tenant_id, removed_by) REFERENCES events
);
CREATE INDEX removed_events_of_part ON removed_events (tenant_id, removed_by);

ALTER TABLE removed_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_events FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON removed_events USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT ON removed_events TO bpc_app;
GRANT INSERT ON removed_events TO bpc_system;

CREATE TRIGGER removed_events_never_change BEFORE UPDATE OR DELETE ON removed_events
  FOR EACH ROW EXECUTE FUNCTION refuse('what a removed event left never changes');
CREATE TRIGGER removed_events_not_truncated BEFORE TRUNCATE ON removed_events
  EXECUTE FUNCTION refuse('what removed events left is never deleted');
