-- The text of PDFs, kept beside their bytes and as long as those. Why there is none stands in its place.
CREATE TABLE document_texts (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  document_version_id  uuid NOT NULL,
  pages                int CHECK (pages >= 0),
  text                 text,
  problem              text,
  created_at           timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, document_version_id),
  CONSTRAINT document_texts_text_or_problem CHECK ((text IS NULL) = (problem IS NOT NULL)),
  FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions
);

ALTER TABLE document_texts ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_texts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_texts USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON document_texts TO bpc_app;
GRANT DELETE ON document_texts TO bpc_system;

CREATE TRIGGER document_texts_never_change BEFORE UPDATE ON document_texts
  FOR EACH ROW EXECUTE FUNCTION refuse('the text of a document never changes');
CREATE TRIGGER document_texts_stay BEFORE DELETE ON document_texts
  FOR EACH ROW WHEN (current_user <> 'bpc_system')
  EXECUTE FUNCTION refuse('the text of a document goes with its content, by retention');
CREATE TRIGGER document_texts_not_truncated BEFORE TRUNCATE ON document_texts
  EXECUTE FUNCTION refuse('texts of documents are never deleted');
