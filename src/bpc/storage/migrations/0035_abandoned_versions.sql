-- A version that cannot be signed any more can be given up. Its status stays COMPILING; when and why is written once,
-- and a version that was given up is never signed.
ALTER TABLE passport_versions
  ADD COLUMN abandoned_at timestamptz,
  ADD COLUMN abandon_reason text CHECK (abandon_reason <> '');
CREATE TRIGGER passport_versions_abandoned_once
  BEFORE UPDATE OF abandoned_at, abandon_reason ON passport_versions
  FOR EACH ROW WHEN (OLD.abandoned_at IS NOT NULL OR OLD.status <> 'COMPILING' OR NEW.abandoned_at IS NULL
    OR NEW.abandon_reason IS NULL)
  EXECUTE FUNCTION refuse('a passport version is given up once, and only before it is signed');
CREATE TRIGGER passport_versions_abandoned_stays BEFORE UPDATE OF status ON passport_versions
  FOR EACH ROW WHEN (OLD.abandoned_at IS NOT NULL AND NEW.status <> OLD.status)
  EXECUTE FUNCTION refuse('a passport version that was given up is never signed');
GRANT UPDATE (abandoned_at, abandon_reason) ON passport_versions TO bpc_app;
