-- Which pepper the hash of an API key was made with, so that a pepper can be replaced while keys are in use: a key is
-- hashed again when it is used, and who replaces the pepper can see what is left. The name is made of the pepper and
-- tells nothing about it. A key that an earlier build made has none until it is used.

ALTER TABLE api_keys ADD COLUMN pepper_id text;

-- The hash of a key changes with its pepper and never otherwise; that of a revoked one not at all.
CREATE TRIGGER api_keys_hash_follows_pepper BEFORE UPDATE OF key_hash ON api_keys
  FOR EACH ROW WHEN (NEW.key_hash IS DISTINCT FROM OLD.key_hash
                     AND (NEW.pepper_id IS NULL OR NEW.pepper_id IS NOT DISTINCT FROM OLD.pepper_id
                          OR OLD.revoked_at IS NOT NULL))
  EXECUTE FUNCTION refuse('the hash of an API key changes only with its pepper');
GRANT UPDATE (key_hash, pepper_id) ON api_keys TO bpc_app;

-- How many keys that still count hang on which pepper, in all tenants: nothing of the keys themselves.
CREATE FUNCTION api_keys_by_pepper()
RETURNS TABLE (slug text, pepper_id text, keys bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT t.slug, k.pepper_id, count(*)
    FROM public.api_keys k
    JOIN public.tenants t ON t.tenant_id = k.tenant_id
   WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
   GROUP BY t.slug, k.pepper_id
   ORDER BY t.slug, k.pepper_id
$$;
REVOKE ALL ON FUNCTION api_keys_by_pepper() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api_keys_by_pepper() TO bpc_system;
