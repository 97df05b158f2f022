-- locks: documents: indexes over each document, built in seconds for a hundred thousand
-- A document has a name for people, which can change. It is found by a part of it, or of its reference.
ALTER TABLE documents ADD COLUMN name text CONSTRAINT documents_name_check CHECK (name <> '');
GRANT UPDATE (name) ON documents TO bpc_app;

CREATE INDEX IF NOT EXISTS documents_by_text ON documents
  USING gin (search_grams(tenant_id, coalesce(name, '') || ' ' || coalesce(external_ref, ''), 2));
CREATE INDEX IF NOT EXISTS documents_of_supplier ON documents (tenant_id, supplier_id, created_at, document_id)
  WHERE supplier_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS documents_inactive ON documents (tenant_id, created_at, document_id) WHERE NOT is_active;
-- One for each kind: row-level security keeps a comparison of two kinds away from a column of an index.
CREATE INDEX IF NOT EXISTS documents_bom ON documents (tenant_id, created_at, document_id) WHERE kind = 'BOM';
CREATE INDEX IF NOT EXISTS documents_pcf ON documents (tenant_id, created_at, document_id) WHERE kind = 'PCF';
CREATE INDEX IF NOT EXISTS documents_due_diligence ON documents (tenant_id, created_at, document_id)
  WHERE kind = 'DUE_DILIGENCE';
CREATE INDEX IF NOT EXISTS documents_other ON documents (tenant_id, created_at, document_id) WHERE kind = 'OTHER';

CREATE POLICY text_search ON documents FOR SELECT TO bpc_owner USING (true);
CREATE FUNCTION find_documents_by_text(needle text, most int) RETURNS SETOF uuid
  LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, public SET plan_cache_mode = force_custom_plan AS $$
BEGIN
  RETURN QUERY
  SELECT document_id FROM documents
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, coalesce(name, '') || ' ' || coalesce(external_ref, ''), 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(coalesce(name, '') || ' ' || coalesce(external_ref, ''))) > 0
   LIMIT most;
END $$;
REVOKE ALL ON FUNCTION find_documents_by_text(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_documents_by_text(text, int) TO bpc_app;
