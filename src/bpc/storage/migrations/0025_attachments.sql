-- locks: passport_versions: an index over two columns of each version, built in seconds
-- Files that stand behind a data point of a product: a declaration of conformity, test reports, dismantling instructions.
-- Each row binds a document version to a data point; a withdrawal ends the binding. Rows are only added.
CREATE TABLE attachments (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  attachment_id        uuid NOT NULL,
  sku                  text NOT NULL CHECK (sku <> ''),
  data_point           int NOT NULL CHECK (data_point BETWEEN 40 AND 43 OR data_point BETWEEN 47 AND 50),
  document_version_id  uuid NOT NULL,
  title                text CHECK (title <> ''),
  mime_type            text NOT NULL CHECK (mime_type <> ''),
  attached_at          timestamptz NOT NULL DEFAULT now(),
  attached_by          uuid,
  PRIMARY KEY (tenant_id, attachment_id),
  FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions,
  FOREIGN KEY (tenant_id, attached_by) REFERENCES actors
);
CREATE INDEX attachments_by_time ON attachments (tenant_id, attached_at, attachment_id);
CREATE INDEX attachments_of_product ON attachments (tenant_id, sku, attached_at, attachment_id);
CREATE INDEX attachments_of_version ON attachments (tenant_id, document_version_id);

ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
ALTER TABLE attachments FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON attachments USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON attachments TO bpc_app;

CREATE TRIGGER attachments_never_change BEFORE UPDATE OR DELETE ON attachments
  FOR EACH ROW EXECUTE FUNCTION refuse('an attachment is never changed or deleted');
CREATE TRIGGER attachments_not_truncated BEFORE TRUNCATE ON attachments
  EXECUTE FUNCTION refuse('attachments are never deleted');

CREATE TABLE attachment_withdrawals (
  tenant_id      uuid NOT NULL REFERENCES tenants,
  attachment_id  uuid NOT NULL,
  reason         text NOT NULL CHECK (reason <> ''),
  withdrawn_at   timestamptz NOT NULL DEFAULT now(),
  withdrawn_by   uuid,
  PRIMARY KEY (tenant_id, attachment_id),
  FOREIGN KEY (tenant_id, attachment_id) REFERENCES attachments,
  FOREIGN KEY (tenant_id, withdrawn_by) REFERENCES actors
);

ALTER TABLE attachment_withdrawals ENABLE ROW LEVEL SECURITY;
ALTER TABLE attachment_withdrawals FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON attachment_withdrawals USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON attachment_withdrawals TO bpc_app;

CREATE TRIGGER attachment_withdrawals_never_change BEFORE UPDATE OR DELETE ON attachment_withdrawals
  FOR EACH ROW EXECUTE FUNCTION refuse('a withdrawal is never changed or deleted');
CREATE TRIGGER attachment_withdrawals_not_truncated BEFORE TRUNCATE ON attachment_withdrawals
  EXECUTE FUNCTION refuse('withdrawals are never deleted');

-- Retention asks whether there is still a passport version of a snapshot that names a file.
CREATE INDEX passport_versions_of_snapshot ON passport_versions (tenant_id, snapshot_id);
