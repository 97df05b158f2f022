-- locks: documents: an index over one row for each document of a supplier, built in seconds
-- What a document says. Each row is a statement: from then on the document says what this version says, or, without a
-- version, nothing: it is withdrawn. What counts is the newest statement whose version was accepted; facts stay.
CREATE TABLE document_statements (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  statement_id         uuid NOT NULL,
  document_id          uuid NOT NULL,
  sequence             int NOT NULL CHECK (sequence >= 1),
  document_version_id  uuid,
  reason               text CHECK (reason <> ''),
  stated_at            timestamptz NOT NULL DEFAULT now(),
  stated_by            uuid,
  PRIMARY KEY (tenant_id, statement_id),
  CONSTRAINT document_statements_in_order UNIQUE (tenant_id, document_id, sequence),
  CONSTRAINT document_statements_withdrawn_why CHECK ((document_version_id IS NULL) = (reason IS NOT NULL)),
  FOREIGN KEY (tenant_id, document_id) REFERENCES documents,
  FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions,
  FOREIGN KEY (tenant_id, stated_by) REFERENCES actors
);
CREATE INDEX document_statements_by_time ON document_statements (tenant_id, document_id, stated_at, statement_id);
CREATE INDEX document_statements_of_version ON document_statements (tenant_id, document_version_id);

ALTER TABLE document_statements ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_statements FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_statements USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON document_statements TO bpc_app;

CREATE TRIGGER document_statements_never_change BEFORE UPDATE OR DELETE ON document_statements
  FOR EACH ROW EXECUTE FUNCTION refuse('a statement is never changed or deleted');
CREATE TRIGGER document_statements_not_truncated BEFORE TRUNCATE ON document_statements
  EXECUTE FUNCTION refuse('statements are never deleted');

-- A supplier's document is found again by the name it has in another system.
CREATE INDEX documents_by_ref ON documents (tenant_id, external_ref, created_at, document_id)
 WHERE external_ref IS NOT NULL;

-- Which document to believe where several differ about a member of a fact. The newest decision counts.
CREATE TABLE fact_decisions (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  decision_id  uuid NOT NULL,
  fact_type    text NOT NULL,
  fact_key     text NOT NULL,
  member       text NOT NULL CHECK (member <> ''),
  document_id  uuid NOT NULL,
  reason       text NOT NULL CHECK (reason <> ''),
  decided_at   timestamptz NOT NULL DEFAULT now(),
  decided_by   uuid,
  PRIMARY KEY (tenant_id, decision_id),
  FOREIGN KEY (tenant_id, document_id) REFERENCES documents,
  FOREIGN KEY (tenant_id, decided_by) REFERENCES actors
);
CREATE INDEX fact_decisions_by_key ON fact_decisions (tenant_id, fact_key COLLATE "C", fact_type, member);

ALTER TABLE fact_decisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE fact_decisions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON fact_decisions USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON fact_decisions TO bpc_app;

CREATE TRIGGER fact_decisions_never_change BEFORE UPDATE OR DELETE ON fact_decisions
  FOR EACH ROW EXECUTE FUNCTION refuse('a decision is never changed or deleted');
CREATE TRIGGER fact_decisions_not_truncated BEFORE TRUNCATE ON fact_decisions
  EXECUTE FUNCTION refuse('decisions are never deleted');

-- The version of this program before this file knows no statements, and uploads while this one is rolled out. Its
-- versions are stated when its transaction commits; a program that states them itself has done so by then.
CREATE FUNCTION state_new_version() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
BEGIN
  INSERT INTO public.document_statements (tenant_id, statement_id, document_id, sequence, document_version_id, stated_at)
  SELECT NEW.tenant_id, NEW.document_version_id, NEW.document_id, coalesce(max(s.sequence), 0) + 1,
         NEW.document_version_id, NEW.uploaded_at
    FROM public.document_statements s
   WHERE s.tenant_id = NEW.tenant_id AND s.document_id = NEW.document_id
  HAVING NOT coalesce(bool_or(s.document_version_id = NEW.document_version_id), false);
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION state_new_version() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER document_versions_are_stated AFTER INSERT ON document_versions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION state_new_version();

-- Until now each version counted from its upload on. A tenant table shows the rows of one tenant at a time.
DO $$
DECLARE
  v_tenant uuid;
BEGIN
  FOR v_tenant IN SELECT tenant_id FROM tenants LOOP
    PERFORM set_config('app.tenant_id', v_tenant::text, true);
    INSERT INTO document_statements (tenant_id, statement_id, document_id, sequence, document_version_id, stated_at)
    SELECT tenant_id, document_version_id, document_id, version, document_version_id, uploaded_at
      FROM document_versions WHERE tenant_id = v_tenant;
  END LOOP;
  PERFORM set_config('app.tenant_id', '', true);
END $$;
