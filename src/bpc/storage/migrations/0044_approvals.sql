-- Four eyes: which actions of a tenant wait for a second person, and the requests that wait or were decided.

ALTER TABLE tenant_settings ADD COLUMN four_eyes text[] NOT NULL DEFAULT '{}';
GRANT UPDATE (four_eyes) ON tenant_settings TO bpc_app;

CREATE TABLE approvals (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  approval_id   uuid NOT NULL,
  action        text NOT NULL,
  permission    text NOT NULL,
  method        text NOT NULL,
  path          text NOT NULL,
  content_type  text NOT NULL,
  body          bytea NOT NULL,
  requested_by  uuid NOT NULL,
  requested_at  timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,
  status        text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'APPROVED', 'REJECTED')),
  decided_by    uuid,
  decided_at    timestamptz,
  PRIMARY KEY (tenant_id, approval_id),
  FOREIGN KEY (tenant_id, requested_by) REFERENCES actors,
  FOREIGN KEY (tenant_id, decided_by) REFERENCES actors,
  CONSTRAINT approvals_by_another CHECK (decided_by IS DISTINCT FROM requested_by OR status = 'REJECTED'),
  CONSTRAINT approvals_decided CHECK ((status = 'PENDING') = (decided_by IS NULL))
);
CREATE INDEX approvals_by_time ON approvals (tenant_id, requested_at, approval_id);

ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON approvals USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE (status, decided_by, decided_at) ON approvals TO bpc_app;
CREATE TRIGGER approvals_final BEFORE UPDATE ON approvals
  FOR EACH ROW WHEN (OLD.status <> 'PENDING') EXECUTE FUNCTION refuse('a decided approval never changes');
CREATE TRIGGER approvals_never_deleted BEFORE DELETE ON approvals
  FOR EACH ROW EXECUTE FUNCTION refuse('an approval is never deleted');
CREATE TRIGGER approvals_not_truncated BEFORE TRUNCATE ON approvals
  EXECUTE FUNCTION refuse('approvals are never deleted');

INSERT INTO permissions (permission) VALUES ('approval:decide');
