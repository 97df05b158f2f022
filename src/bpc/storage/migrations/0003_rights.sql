-- Who may touch what. `bpc_app` serves requests and jobs of one tenant at a time; `bpc_system` has the few paths
-- that cross tenants or remove what has outlived its retention; `bpc_owner` owns the tables and runs migrations.
-- The tenant of a transaction is the setting app.tenant_id; without one, a tenant table shows and takes nothing.

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT nullif(current_setting('app.tenant_id', true), '')::uuid  -- '' after a SET LOCAL has ended
$$;

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'tenants', 'actors', 'api_key_prefixes', 'api_keys', 'roles', 'role_permissions', 'actor_roles', 'policies',
    'policy_versions', 'events', 'event_anchors', 'documents', 'document_versions', 'facts', 'fact_sources',
    'data_snapshots', 'snapshot_items', 'rule_packages', 'rule_package_versions', 'rule_fields', 'rule_tests_runs',
    'battery_products', 'passports', 'passport_versions', 'idempotency_keys', 'webhook_endpoints',
    'webhook_subscriptions', 'webhook_deliveries', 'rate_limit_buckets']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant_id = current_tenant()) '
                   'WITH CHECK (tenant_id = current_tenant())', tenant_table);
    EXECUTE format('GRANT SELECT ON %I TO bpc_app', tenant_table);
    IF tenant_table NOT IN ('tenants', 'event_anchors') THEN
      EXECUTE format('GRANT INSERT ON %I TO bpc_app', tenant_table);
    END IF;
  END LOOP;
END $$;

REVOKE ALL ON FUNCTION current_tenant(), refuse(), refuse_when_sealed(), refuse_unless_draft(), refuse_before_anchor(),
  refuse_loose_anchor() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION current_tenant() TO bpc_app;
GRANT SELECT ON permissions, signing_keys TO bpc_app;

-- What the application may change, column by column; the triggers of 0002 say how.
GRANT UPDATE (display_name, email, is_active) ON actors TO bpc_app;
GRANT UPDATE (label, expires_at, revoked_at, last_used_at) ON api_keys TO bpc_app;
GRANT UPDATE (name) ON roles TO bpc_app;
GRANT UPDATE (name) ON policies TO bpc_app;
GRANT UPDATE (is_active) ON policy_versions TO bpc_app;
GRANT UPDATE (external_ref, is_active) ON documents TO bpc_app;
GRANT UPDATE (status) ON document_versions TO bpc_app;
GRANT UPDATE (status, label, sealed_at, snapshot_canonical, snapshot_hash) ON data_snapshots TO bpc_app;
GRANT UPDATE (name, description, is_active) ON rule_packages TO bpc_app;
GRANT UPDATE (status, published_at) ON rule_package_versions TO bpc_app;
GRANT UPDATE (name, is_active) ON battery_products TO bpc_app;
GRANT UPDATE (current_passport_version_id) ON passports TO bpc_app;
GRANT UPDATE (status, activated_at, superseded_at, revoked_at, signature, signing_key_id, receipt_canonical,
              qr_png, qr_payload) ON passport_versions TO bpc_app;
GRANT UPDATE (url, secret_base64, is_active) ON webhook_endpoints TO bpc_app;
GRANT UPDATE (attempt, status, last_error, delivered_at) ON webhook_deliveries TO bpc_app;
GRANT UPDATE ON rate_limit_buckets TO bpc_app;
GRANT DELETE ON role_permissions, actor_roles, snapshot_items, webhook_subscriptions, idempotency_keys,
                rate_limit_buckets TO bpc_app;

-- The system role does what the application does (it is a member), knows all tenants, and runs retention.
CREATE POLICY all_tenants ON tenants TO bpc_system USING (true) WITH CHECK (true);
GRANT INSERT, UPDATE (name, is_active) ON tenants TO bpc_system;
GRANT DELETE ON events, passport_versions, webhook_deliveries TO bpc_system;
GRANT UPDATE (content, content_removed_at) ON document_versions TO bpc_system;
GRANT INSERT, UPDATE (aggregate_version, event_hash) ON event_anchors TO bpc_system;
GRANT INSERT, UPDATE (status, retired_at) ON signing_keys TO bpc_system;

-- Looking up an API key is the one thing done before the tenant is known. The function is the only way to do it,
-- and it returns what is needed to decide, never more.
CREATE POLICY key_lookup ON api_key_prefixes FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON api_keys FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON actors FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON tenants FOR SELECT TO bpc_owner USING (true);

CREATE FUNCTION find_api_key(prefix text)
RETURNS TABLE (tenant_id uuid, api_key_id uuid, actor_id uuid, key_hash bytea, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, is_active boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT k.tenant_id, k.api_key_id, k.actor_id, k.key_hash, k.expires_at, k.revoked_at, k.last_used_at,
         a.is_active AND t.is_active
    FROM public.api_key_prefixes p
    JOIN public.api_keys k ON k.tenant_id = p.tenant_id AND k.key_prefix = p.key_prefix
    JOIN public.actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
    JOIN public.tenants t ON t.tenant_id = k.tenant_id
   WHERE p.key_prefix = prefix
$$;
REVOKE ALL ON FUNCTION find_api_key(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(text) TO bpc_app;

-- An event whose tenant does not exist is in nobody's log, where nobody would find it. It can only come from an edit
-- past all rules; verification asks for such events by name.
CREATE POLICY without_a_tenant ON events FOR SELECT TO bpc_owner
  USING (NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = events.tenant_id));

CREATE FUNCTION events_without_a_tenant()
RETURNS TABLE (tenant_id uuid, aggregate_type text, aggregate_id uuid, aggregate_version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT e.tenant_id, e.aggregate_type, e.aggregate_id, e.aggregate_version
    FROM public.events e
   WHERE NOT EXISTS (SELECT FROM public.tenants t WHERE t.tenant_id = e.tenant_id)
   ORDER BY e.tenant_id, e.aggregate_type, e.aggregate_id, e.aggregate_version
$$;
REVOKE ALL ON FUNCTION events_without_a_tenant() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION events_without_a_tenant() TO bpc_system;

-- Where a chain stands, read under a lock that makes writers of one aggregate queue up instead of colliding.
-- A statement of its own after the lock: it sees what the writer before us committed.
CREATE FUNCTION locked_event_head(the_type text, the_id uuid, OUT aggregate_version bigint, OUT event_hash bytea)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(public.current_tenant() || '/' || the_type || '/' || the_id, 0));
  SELECT e.aggregate_version, e.event_hash INTO aggregate_version, event_hash
    FROM public.events e
   WHERE e.tenant_id = public.current_tenant() AND e.aggregate_type = the_type AND e.aggregate_id = the_id
   ORDER BY e.aggregate_version DESC
   LIMIT 1;
  IF NOT FOUND THEN
    SELECT a.aggregate_version, a.event_hash INTO aggregate_version, event_hash
      FROM public.event_anchors a
     WHERE a.tenant_id = public.current_tenant() AND a.aggregate_type = the_type AND a.aggregate_id = the_id;
  END IF;
END $$;
REVOKE ALL ON FUNCTION locked_event_head(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION locked_event_head(text, uuid) TO bpc_app;
