-- Exports: a passport version in another form, made by a job. What is asked for never changes; what was made is written
-- once. Equal bytes could be made again, so retention may remove an export at any time.

CREATE TABLE passport_exports (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  export_id            uuid NOT NULL,
  passport_version_id  uuid NOT NULL,
  format               text NOT NULL
                       CONSTRAINT passport_exports_format_check
                       CHECK (format IN ('PDF', 'JSON_LD', 'XML', 'DATA_POINTS', 'BUNDLE')),
  audience             text NOT NULL
                       CONSTRAINT passport_exports_audience_check
                       CHECK (audience IN ('public', 'interest', 'authority', 'tenant')),
  status               text NOT NULL DEFAULT 'PENDING'
                       CONSTRAINT passport_exports_status_check CHECK (status IN ('PENDING', 'READY', 'FAILED')),
  mime_type            text NOT NULL,
  file_name            text NOT NULL,
  content              bytea,
  sha256               hash256,
  last_error           jsonb,
  job_id               uuid NOT NULL,
  created_at           timestamptz NOT NULL DEFAULT now(),
  created_by           uuid,
  finished_at          timestamptz,
  PRIMARY KEY (tenant_id, export_id),
  FOREIGN KEY (tenant_id, passport_version_id) REFERENCES passport_versions (tenant_id, passport_version_id),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors (tenant_id, actor_id),
  CONSTRAINT passport_exports_ready_has_content CHECK (
    (status = 'READY') = (content IS NOT NULL) AND (content IS NULL) = (sha256 IS NULL)
    AND (status = 'FAILED') = (last_error IS NOT NULL) AND (status = 'PENDING') = (finished_at IS NULL))
);
-- Kept as it is: most of it is compressed already.
ALTER TABLE passport_exports ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX passport_exports_by_time ON passport_exports (tenant_id, passport_version_id, created_at, export_id);

CREATE TRIGGER passport_exports_frozen
  BEFORE UPDATE OF tenant_id, export_id, passport_version_id, format, audience, mime_type, file_name, job_id, created_at,
                   created_by ON passport_exports
  FOR EACH ROW EXECUTE FUNCTION refuse('what an export is of never changes');
CREATE TRIGGER passport_exports_written_once
  BEFORE UPDATE ON passport_exports
  FOR EACH ROW WHEN (OLD.status = 'READY') EXECUTE FUNCTION refuse('an export that is ready never changes');
CREATE TRIGGER passport_exports_not_undone
  BEFORE UPDATE OF status ON passport_exports
  FOR EACH ROW WHEN (NEW.status = 'PENDING' AND OLD.status <> 'PENDING')
  EXECUTE FUNCTION refuse('an export that is over does not begin again');

ALTER TABLE passport_exports ENABLE ROW LEVEL SECURITY;
ALTER TABLE passport_exports FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passport_exports USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE (status, content, sha256, last_error, finished_at) ON passport_exports TO bpc_app;
GRANT DELETE ON passport_exports TO bpc_system;
