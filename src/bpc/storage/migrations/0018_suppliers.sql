-- Who sends documents. A supplier of a higher rank is believed first: 1, then 2, then those without a rank.
CREATE TABLE suppliers (
  tenant_id      uuid NOT NULL REFERENCES tenants,
  supplier_id    uuid NOT NULL,
  name           text NOT NULL CHECK (name <> ''),
  number_locale  text CHECK (number_locale IN ('comma', 'point')),
  rank           int CHECK (rank >= 1),
  created_at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, supplier_id),
  CONSTRAINT suppliers_name_key UNIQUE (tenant_id, name)
);
CREATE INDEX suppliers_by_time ON suppliers (tenant_id, created_at, supplier_id);

ALTER TABLE suppliers ENABLE ROW LEVEL SECURITY;
ALTER TABLE suppliers FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON suppliers USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE (number_locale, rank) ON suppliers TO bpc_app;

-- Which column of a supplier's tables is which member. The newest version counts; none is ever changed.
CREATE TABLE column_mappings (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  supplier_id  uuid NOT NULL,
  kind         document_kind NOT NULL,
  version      int NOT NULL CHECK (version >= 1),
  mapping      jsonb NOT NULL,
  accepted_at  timestamptz NOT NULL DEFAULT now(),
  accepted_by  uuid,
  PRIMARY KEY (tenant_id, supplier_id, kind, version),
  FOREIGN KEY (tenant_id, supplier_id) REFERENCES suppliers,
  FOREIGN KEY (tenant_id, accepted_by) REFERENCES actors
);

ALTER TABLE column_mappings ENABLE ROW LEVEL SECURITY;
ALTER TABLE column_mappings FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON column_mappings USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON column_mappings TO bpc_app;
CREATE TRIGGER column_mappings_never_change BEFORE UPDATE OR DELETE ON column_mappings
  FOR EACH ROW EXECUTE FUNCTION refuse('a column mapping is never changed or deleted');
CREATE TRIGGER column_mappings_not_truncated BEFORE TRUNCATE ON column_mappings
  EXECUTE FUNCTION refuse('column mappings are never deleted');

-- The one document that uploads by reference go to.
CREATE TABLE document_refs (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  external_ref  text NOT NULL CHECK (external_ref <> ''),
  document_id   uuid NOT NULL,
  PRIMARY KEY (tenant_id, external_ref),
  FOREIGN KEY (tenant_id, document_id) REFERENCES documents
);

ALTER TABLE document_refs ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_refs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_refs USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON document_refs TO bpc_app;

-- Which version a sender's own number of a version meant, so that an upload that is repeated changes nothing.
CREATE TABLE document_version_refs (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  document_id          uuid NOT NULL,
  version_ref          text NOT NULL CHECK (version_ref <> ''),
  document_version_id  uuid NOT NULL,
  PRIMARY KEY (tenant_id, document_id, version_ref),
  FOREIGN KEY (tenant_id, document_id) REFERENCES documents,
  FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions
);

ALTER TABLE document_version_refs ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_version_refs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_version_refs USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON document_version_refs TO bpc_app;

-- A document names its supplier, and how it writes numbers if that differs from its supplier's way.
ALTER TABLE documents ADD COLUMN supplier_id uuid;
ALTER TABLE documents ADD COLUMN number_locale text CHECK (number_locale IN ('comma', 'point'));
ALTER TABLE documents ADD FOREIGN KEY (tenant_id, supplier_id) REFERENCES suppliers;
GRANT UPDATE (supplier_id, number_locale) ON documents TO bpc_app;
