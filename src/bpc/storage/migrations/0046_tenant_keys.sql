-- locks: signing_keys: an index over a few rows
-- Keys of tenants. A key without an owner is the installation's; it signs for tenants that have no key of their own.
-- A window bounds when a key signs. A compromised key counts for what the log shows before `compromised_since`.

ALTER TYPE signing_key_status ADD VALUE 'COMPROMISED';
ALTER TABLE signing_keys
  ADD COLUMN owner_tenant_id    uuid REFERENCES tenants,
  ADD COLUMN valid_from         timestamptz,
  ADD COLUMN valid_until        timestamptz,
  ADD COLUMN compromised_since  timestamptz,
  ADD CONSTRAINT signing_keys_window_check CHECK (valid_until IS NULL OR valid_from IS NULL OR valid_from < valid_until);
CREATE INDEX signing_keys_of_tenant ON signing_keys (owner_tenant_id, created_at DESC) WHERE owner_tenant_id IS NOT NULL;
GRANT UPDATE (compromised_since) ON signing_keys TO bpc_system;

-- Who owns a key and when it is valid never changes. A compromise is never taken back; it may turn out to be older.
DROP TRIGGER signing_keys_frozen ON signing_keys;
CREATE TRIGGER signing_keys_frozen
  BEFORE UPDATE OF key_id, public_key, created_at, owner_tenant_id, valid_from, valid_until ON signing_keys
  FOR EACH ROW EXECUTE FUNCTION refuse('a signing key never changes');
DROP TRIGGER signing_keys_retired ON signing_keys;
CREATE TRIGGER signing_keys_retired BEFORE UPDATE OF status, retired_at ON signing_keys
  FOR EACH ROW WHEN (OLD.status = 'RETIRED' AND NEW.status::text <> 'COMPROMISED')
  EXECUTE FUNCTION refuse('a retired signing key stays retired');
CREATE TRIGGER signing_keys_compromised BEFORE UPDATE OF status, compromised_since ON signing_keys
  FOR EACH ROW WHEN (OLD.compromised_since IS NOT NULL
      AND (NEW.status IS DISTINCT FROM OLD.status OR NEW.compromised_since > OLD.compromised_since)
    OR (NEW.status::text = 'COMPROMISED') <> (NEW.compromised_since IS NOT NULL))
  EXECUTE FUNCTION refuse('a compromised signing key stays compromised');
