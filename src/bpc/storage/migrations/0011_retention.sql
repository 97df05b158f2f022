-- Retention: what goes is found by its age, and every anchor it leaves is vouched for.

CREATE INDEX document_versions_with_content ON document_versions (tenant_id, uploaded_at) WHERE content IS NOT NULL;
-- A version's time runs from when it was last ended: superseded, or revoked later on.
CREATE INDEX passport_versions_ended ON passport_versions (tenant_id, greatest(superseded_at, revoked_at))
  WHERE status IN ('SUPERSEDED', 'REVOKED');
CREATE INDEX passport_exports_over ON passport_exports (tenant_id, finished_at) WHERE finished_at IS NOT NULL;
-- For each event that goes, the database asks whether a delivery still refers to it.
CREATE INDEX webhook_deliveries_of_event ON webhook_deliveries (tenant_id, event_id);

-- Every anchor that retention put, with the RetentionApplied event that has the hash of their list. An anchor moves on;
-- where it was before stays here, so that the list of every run can be hashed again.
CREATE TABLE retention_anchors (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  event_id           uuid NOT NULL,
  aggregate_type     text NOT NULL,
  aggregate_id       uuid NOT NULL,
  aggregate_version  bigint NOT NULL CHECK (aggregate_version >= 1),
  event_hash         hash256 NOT NULL,
  PRIMARY KEY (tenant_id, event_id, aggregate_type, aggregate_id),
  FOREIGN KEY (tenant_id, event_id) REFERENCES events
);
CREATE INDEX retention_anchors_of_chain ON retention_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version);

ALTER TABLE retention_anchors ENABLE ROW LEVEL SECURITY;
ALTER TABLE retention_anchors FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON retention_anchors USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT ON retention_anchors TO bpc_app;
GRANT INSERT ON retention_anchors TO bpc_system;

CREATE TRIGGER retention_anchors_never_change BEFORE UPDATE OR DELETE ON retention_anchors
  FOR EACH ROW EXECUTE FUNCTION refuse('what retention vouches for never changes');
CREATE TRIGGER retention_anchors_not_truncated BEFORE TRUNCATE ON retention_anchors
  EXECUTE FUNCTION refuse('what retention vouches for is never deleted');

-- The chain that retention is recorded in is never cut: all else is vouched for from there.
CREATE TRIGGER event_anchors_not_of_tenants BEFORE INSERT OR UPDATE ON event_anchors
  FOR EACH ROW WHEN (NEW.aggregate_type = 'Tenant')
  EXECUTE FUNCTION refuse('the chain of a tenant is never cut');
