-- locks: passports: two indexes over each passport, built in seconds for a hundred thousand
-- Passports with and without a version that is active, newest first.
CREATE INDEX IF NOT EXISTS passports_active ON passports (tenant_id, created_at, passport_id)
  WHERE current_passport_version_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS passports_without_version ON passports (tenant_id, created_at, passport_id)
  WHERE current_passport_version_id IS NULL;
