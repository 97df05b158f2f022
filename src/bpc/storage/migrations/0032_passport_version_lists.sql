-- locks: passport_versions: indexes over three columns of each version, built in seconds for a hundred thousand
-- The versions of all passports, newest first, of any status and of each. One index for each status: row-level security
-- keeps a comparison of two statuses away from a column of an index.
CREATE INDEX IF NOT EXISTS passport_versions_newest ON passport_versions (tenant_id, created_at, passport_version_id);
CREATE INDEX IF NOT EXISTS passport_versions_compiling ON passport_versions (tenant_id, created_at, passport_version_id)
  WHERE status = 'COMPILING';
CREATE INDEX IF NOT EXISTS passport_versions_signed ON passport_versions (tenant_id, created_at, passport_version_id)
  WHERE status = 'SIGNED';
CREATE INDEX IF NOT EXISTS passport_versions_active ON passport_versions (tenant_id, created_at, passport_version_id)
  WHERE status = 'ACTIVE';
CREATE INDEX IF NOT EXISTS passport_versions_superseded ON passport_versions (tenant_id, created_at, passport_version_id)
  WHERE status = 'SUPERSEDED';
CREATE INDEX IF NOT EXISTS passport_versions_revoked ON passport_versions (tenant_id, created_at, passport_version_id)
  WHERE status = 'REVOKED';
