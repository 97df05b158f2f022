-- locks: passports: an index over each passport, built in seconds for a hundred thousand
-- Whoever scans a battery knows the id of its passport, and neither a tenant nor a key. One function finds whose passport
-- it is; everything else is read as that tenant.
CREATE INDEX passports_by_id ON passports (passport_id);
CREATE POLICY public_lookup ON passports FOR SELECT TO bpc_owner USING (true);

CREATE FUNCTION find_public_passport(the_passport uuid) RETURNS TABLE (tenant_id uuid, issuer text)
  LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, public
  AS $$
  SELECT p.tenant_id, t.name
    FROM passports p
    JOIN tenants t ON t.tenant_id = p.tenant_id
   WHERE p.passport_id = the_passport
$$;
REVOKE ALL ON FUNCTION find_public_passport(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_public_passport(uuid) TO bpc_app;
