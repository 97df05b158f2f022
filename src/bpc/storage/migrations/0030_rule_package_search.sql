-- locks: rule_packages: two indexes over a few rows
-- Rule packages are found by a part of their name or description.
CREATE INDEX IF NOT EXISTS rule_packages_by_text ON rule_packages
  USING gin (search_grams(tenant_id, name || ' ' || coalesce(description, ''), 2));
CREATE INDEX IF NOT EXISTS rule_packages_inactive ON rule_packages (tenant_id, created_at, rule_package_id)
  WHERE NOT is_active;

CREATE POLICY text_search ON rule_packages FOR SELECT TO bpc_owner USING (true);
CREATE FUNCTION find_rule_packages_by_text(needle text, most int) RETURNS SETOF uuid
  LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, public SET plan_cache_mode = force_custom_plan AS $$
BEGIN
  RETURN QUERY
  SELECT rule_package_id FROM rule_packages
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, name || ' ' || coalesce(description, ''), 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(name || ' ' || coalesce(description, ''))) > 0
   LIMIT most;
END $$;
REVOKE ALL ON FUNCTION find_rule_packages_by_text(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_rule_packages_by_text(text, int) TO bpc_app;
