-- locks: passport_versions: an index over the versions that were given up, which are few
-- A version that was given up is removed by retention like one that was superseded or revoked.
CREATE INDEX IF NOT EXISTS passport_versions_abandoned ON passport_versions (tenant_id, abandoned_at)
  WHERE abandoned_at IS NOT NULL;

DROP TRIGGER passport_versions_stay ON passport_versions;
CREATE TRIGGER passport_versions_stay BEFORE DELETE ON passport_versions
  FOR EACH ROW WHEN (current_user <> 'bpc_system'
    OR OLD.status NOT IN ('SUPERSEDED', 'REVOKED') AND OLD.abandoned_at IS NULL)
  EXECUTE FUNCTION refuse('a passport version is only ever removed by retention');
