-- What an API key may do is kept in memory by each process that serves. The version of a tenant's access changes with
-- each change of its keys, actors, roles and policies. A request says which version it knows; if that is out of date,
-- its transaction does not begin, and the caller is looked up again. So a revocation holds at the next request.

-- A random version, not a number: after a restored backup, an old number could come again. Tenants that are there have
-- the nil version until their first change, so the table is not rewritten.
ALTER TABLE tenants ADD COLUMN access_version uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE tenants ALTER COLUMN access_version SET DEFAULT gen_random_uuid();

CREATE FUNCTION renew_access_version() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  UPDATE tenants SET access_version = gen_random_uuid()
   WHERE tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id)
     AND xmin <> pg_current_xact_id()::xid;  -- once for each transaction: nobody else has seen its version yet
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION renew_access_version() FROM PUBLIC;
CREATE POLICY access_changes ON tenants FOR UPDATE TO bpc_owner USING (true);

CREATE FUNCTION renew_own_access_version() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.access_version := gen_random_uuid();
  RETURN NEW;
END $$;

-- A new key, actor or role changes nothing for callers that are known.
CREATE TRIGGER tenants_renew_access BEFORE UPDATE OF is_active ON tenants
  FOR EACH ROW WHEN (NEW.is_active IS DISTINCT FROM OLD.is_active) EXECUTE FUNCTION renew_own_access_version();
CREATE TRIGGER api_keys_renew_access AFTER DELETE OR UPDATE OF actor_id, key_prefix, key_hash, expires_at, revoked_at
  ON api_keys FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER actors_renew_access AFTER DELETE OR UPDATE OF type, is_active
  ON actors FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER actor_roles_renew_access AFTER INSERT OR UPDATE OR DELETE
  ON actor_roles FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER roles_renew_access AFTER DELETE OR UPDATE OF name
  ON roles FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER role_permissions_renew_access AFTER INSERT OR UPDATE OR DELETE
  ON role_permissions FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER policy_versions_renew_access AFTER INSERT OR DELETE OR UPDATE OF is_active
  ON policy_versions FOR EACH ROW EXECUTE FUNCTION renew_access_version();

-- For whoever looks up a caller before the tenant is known.
CREATE FUNCTION find_access_version(the_tenant uuid) RETURNS uuid
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT access_version FROM tenants WHERE tenant_id = the_tenant
$$;
REVOKE ALL ON FUNCTION find_access_version(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_access_version(uuid) TO bpc_app;

-- Called in a transaction that is bound to its tenant, before anything is read.
CREATE FUNCTION require_access_version(known uuid) RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tenants WHERE tenant_id = (SELECT current_tenant()) AND access_version = known) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP002', MESSAGE = 'the access of this tenant has changed';
  END IF;
END $$;
REVOKE ALL ON FUNCTION require_access_version(uuid), renew_own_access_version() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION require_access_version(uuid) TO bpc_app;
