-- What the API asks of the database: lists by time, who is calling in one look, one answer per idempotency key, and a
-- bucket of tokens per API key.

-- Lists are read newest first by (time, id), a page at a time, from an index that holds exactly that.
ALTER TABLE roles ADD COLUMN created_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX actors_by_time ON actors (tenant_id, created_at, actor_id);
CREATE INDEX api_keys_by_time ON api_keys (tenant_id, created_at, api_key_id);
CREATE INDEX roles_by_time ON roles (tenant_id, created_at, role_id);
CREATE INDEX policies_by_time ON policies (tenant_id, created_at, policy_id);
CREATE INDEX policy_versions_by_time ON policy_versions (tenant_id, policy_id, created_at, policy_version_id);
CREATE INDEX rule_packages_by_time ON rule_packages (tenant_id, created_at, rule_package_id);
CREATE INDEX rule_package_versions_by_time
  ON rule_package_versions (tenant_id, rule_package_id, created_at, rule_package_version_id);
CREATE INDEX battery_products_by_time ON battery_products (tenant_id, created_at, battery_product_id);
CREATE INDEX passports_by_time ON passports (tenant_id, created_at, passport_id);
CREATE INDEX document_versions_by_time
  ON document_versions (tenant_id, document_id, uploaded_at, document_version_id);
CREATE INDEX facts_of_type_by_time ON facts (tenant_id, fact_type, created_at, fact_id);
CREATE INDEX webhook_endpoints_by_time ON webhook_endpoints (tenant_id, created_at, webhook_endpoint_id);
CREATE INDEX webhook_subscriptions_by_time ON webhook_subscriptions (tenant_id, created_at, webhook_subscription_id);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (tenant_id, created_at, webhook_delivery_id);
DROP INDEX passport_versions_by_time;
CREATE INDEX passport_versions_by_time ON passport_versions (tenant_id, passport_id, created_at, passport_version_id);
CREATE INDEX rule_tests_runs_by_time ON rule_tests_runs (tenant_id, rule_package_version_id, created_at, run_id);
DROP INDEX rule_tests_runs_by_version;
DROP INDEX events_by_type_time;
CREATE INDEX events_by_type_time ON events (tenant_id, event_type, occurred_at, event_id);

-- Facts: nobody is shown the secrets of snapshots, so a list does not have to pass over them. Prefixes of keys are ranges
-- of code points, whatever the database's own order of texts is.
DROP INDEX facts_by_time;
CREATE INDEX facts_by_time ON facts (tenant_id, created_at, fact_id) WHERE fact_type <> 'Blinding';
DROP INDEX facts_by_key;
CREATE INDEX facts_by_key ON facts (tenant_id, fact_key COLLATE "C", created_at, fact_id) WHERE fact_type <> 'Blinding';
CREATE INDEX facts_of_type_by_key ON facts (tenant_id, fact_type, fact_key COLLATE "C", created_at, fact_id);
DROP INDEX fact_sources_of_document;
CREATE INDEX fact_sources_of_document ON fact_sources (tenant_id, document_version_id, fact_id);

-- The tenant of the transaction is looked up once per statement instead of once per row.
DO $$
DECLARE
  tenant_table text;
BEGIN
  FOR tenant_table IN SELECT tablename FROM pg_policies WHERE schemaname = 'public' AND policyname = 'own_tenant' LOOP
    EXECUTE format('ALTER POLICY own_tenant ON %I USING (tenant_id = (SELECT current_tenant())) '
                   'WITH CHECK (tenant_id = (SELECT current_tenant()))', tenant_table);
  END LOOP;
END $$;

-- Who is calling ------------------------------------------------------------------------------------------------
-- Everything a request is decided by, found by the one thing that it shows before its tenant is known. The hash is
-- compared by the caller, in constant time; until then none of this is used.

CREATE POLICY key_lookup ON roles FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON role_permissions FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON actor_roles FOR SELECT TO bpc_owner USING (true);
CREATE POLICY key_lookup ON policy_versions FOR SELECT TO bpc_owner USING (true);

CREATE FUNCTION find_caller(prefix text)
RETURNS TABLE (tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea, expires_at timestamptz,
               revoked_at timestamptz, last_used_at timestamptz, is_active boolean, roles text[], permissions text[],
               policies text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$  -- plpgsql keeps its plan
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT k.tenant_id, k.api_key_id, k.actor_id, a.type::text, k.key_hash::bytea, k.expires_at, k.revoked_at, k.last_used_at,
         a.is_active AND t.is_active,
         ARRAY(SELECT r.name FROM public.actor_roles ar
                 JOIN public.roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                WHERE ar.tenant_id = k.tenant_id AND ar.actor_id = k.actor_id ORDER BY r.name),
         ARRAY(SELECT DISTINCT rp.permission FROM public.actor_roles ar
                 JOIN public.role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
                WHERE ar.tenant_id = k.tenant_id AND ar.actor_id = k.actor_id),
         (SELECT json_agg(json_build_object(
                   'policy_id', v.policy_id, 'policy_version_id', v.policy_version_id, 'version', v.version,
                   'effect', v.effect, 'target', v.target, 'priority', v.priority, 'policy_json', v.policy_json))::text
            FROM public.policy_versions v WHERE v.tenant_id = k.tenant_id AND v.is_active)
    FROM public.api_key_prefixes p
    JOIN public.api_keys k ON k.tenant_id = p.tenant_id AND k.key_prefix = p.key_prefix
    JOIN public.actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
    JOIN public.tenants t ON t.tenant_id = k.tenant_id
   WHERE p.key_prefix = prefix;
END $$;
REVOKE ALL ON FUNCTION find_caller(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_caller(text) TO bpc_app;

-- One answer per idempotency key --------------------------------------------------------------------------------
-- The lock lasts until the request's transaction ends: a duplicate waits here, and then sees what the first committed.

CREATE FUNCTION answered(p_tenant uuid, p_key text)
RETURNS TABLE (request_hash bytea, response_status int, response_headers text, response_body bytea)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('idempotency/' || p_tenant || '/' || p_key, 0));
  RETURN QUERY
  SELECT i.request_hash::bytea, i.response_status, i.response_headers::text, i.response_body
    FROM public.idempotency_keys i WHERE i.tenant_id = p_tenant AND i.key = p_key;
END $$;
REVOKE ALL ON FUNCTION answered(uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION answered(uuid, text) TO bpc_app;

-- Token bucket, BPC-RL-1 ------------------------------------------------------------------------------------------
-- A statement of its own, in the tenant of the key. `wait` is how many seconds until there is a token, 0 if one was taken.

CREATE FUNCTION take_token(p_tenant uuid, p_key bytea, p_capacity int, p_rate int, OUT tokens_left float8, OUT wait float8)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_now    timestamptz := clock_timestamp();
  v_tokens float8;
BEGIN
  PERFORM set_config('app.tenant_id', p_tenant::text, true);
  INSERT INTO public.rate_limit_buckets AS b (tenant_id, key_hash, capacity, tokens, refill_per_second, updated_at)
  VALUES (p_tenant, p_key, p_capacity, p_capacity, p_rate, v_now)
      ON CONFLICT (tenant_id, key_hash) DO UPDATE
     SET capacity = p_capacity, refill_per_second = p_rate,
         tokens = least(p_capacity, b.tokens
                    + p_rate * greatest(0, extract(epoch FROM clock_timestamp() - b.updated_at))),
         updated_at = greatest(b.updated_at, clock_timestamp())
  RETURNING b.tokens INTO v_tokens;
  IF v_tokens >= 1 THEN
    UPDATE public.rate_limit_buckets SET tokens = tokens - 1 WHERE tenant_id = p_tenant AND key_hash = p_key;
    tokens_left := v_tokens - 1;
    wait := 0;
  ELSE
    tokens_left := v_tokens;
    wait := (1 - v_tokens) / p_rate;
  END IF;
END $$;
REVOKE ALL ON FUNCTION take_token(uuid, bytea, int, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_token(uuid, bytea, int, int) TO bpc_app;

-- Audit events and webhooks -------------------------------------------------------------------------------------
-- Events are also asked for by who acted and by what was acted on; deliveries by endpoint, by status and by both. Times in a
-- chain need not follow its versions, so the chain's own index does not put its events in the order of lists.

CREATE INDEX events_of_aggregate_by_time ON events (tenant_id, aggregate_id, occurred_at, event_id);
CREATE INDEX events_by_actor_time ON events (tenant_id, actor_id, occurred_at, event_id);
CREATE INDEX events_by_aggregate_type_time ON events (tenant_id, aggregate_type, occurred_at, event_id);
DROP INDEX webhook_deliveries_by_status;
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (tenant_id, status, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_by_endpoint
  ON webhook_deliveries (tenant_id, webhook_endpoint_id, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_by_endpoint_status
  ON webhook_deliveries (tenant_id, webhook_endpoint_id, status, created_at, webhook_delivery_id);

-- After a rotation the secret before is kept, so that receivers have time to change theirs.
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret_base64 text, ADD COLUMN rotated_at timestamptz;
GRANT UPDATE (previous_secret_base64, rotated_at) ON webhook_endpoints TO bpc_app;
