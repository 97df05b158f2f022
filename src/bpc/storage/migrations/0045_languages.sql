-- A print is in a language; a rule package has its texts in others. Catalogues lie outside every hash, so they may be
-- replaced; each change is an event of the package.
ALTER TABLE passport_exports ADD COLUMN language text NOT NULL DEFAULT 'en'
  CONSTRAINT passport_exports_language_check CHECK (language ~ '^[a-z]{2}$');

DROP TRIGGER passport_exports_frozen ON passport_exports;
CREATE TRIGGER passport_exports_frozen
  BEFORE UPDATE OF tenant_id, export_id, passport_version_id, format, audience, language, mime_type, file_name, job_id,
                   created_at, created_by ON passport_exports
  FOR EACH ROW EXECUTE FUNCTION refuse('what an export is of never changes');

CREATE TABLE rule_catalogues (
  tenant_id        uuid NOT NULL REFERENCES tenants,
  rule_package_id  uuid NOT NULL,
  language         text NOT NULL CONSTRAINT rule_catalogues_language_check CHECK (language ~ '^[a-z]{2}$'),
  content          bytea NOT NULL CONSTRAINT rule_catalogues_size_check CHECK (octet_length(content) <= 1048576),
  sha256           hash256 NOT NULL,
  texts            integer NOT NULL,
  stored_at        timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, rule_package_id, language),
  FOREIGN KEY (tenant_id, rule_package_id) REFERENCES rule_packages (tenant_id, rule_package_id)
);
CREATE TRIGGER rule_catalogues_stay BEFORE DELETE ON rule_catalogues
  FOR EACH ROW EXECUTE FUNCTION refuse('a catalogue is replaced, never deleted');
CREATE TRIGGER rule_catalogues_frozen BEFORE UPDATE OF tenant_id, rule_package_id, language ON rule_catalogues
  FOR EACH ROW EXECUTE FUNCTION refuse('what a catalogue is of never changes');

ALTER TABLE rule_catalogues ENABLE ROW LEVEL SECURITY;
ALTER TABLE rule_catalogues FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_catalogues USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE (content, sha256, texts, stored_at) ON rule_catalogues TO bpc_app;
