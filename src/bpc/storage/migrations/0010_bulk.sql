-- Bulk compiles: what was asked for, a row for each passport. How a row stands is not written down: it follows from its
-- version and its jobs. Only why a row could not begin is kept, because jobs are not kept for ever.
CREATE TABLE compile_runs (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  run_id                   uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  activate                 boolean NOT NULL,
  total                    int NOT NULL CHECK (total > 0),
  batch_id                 uuid,
  created_at               timestamptz NOT NULL DEFAULT now(),
  created_by               uuid,
  cancelled_at             timestamptz,
  PRIMARY KEY (tenant_id, run_id),
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions,
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);
CREATE INDEX compile_runs_by_time ON compile_runs (tenant_id, created_at, run_id);

-- `passport_version_id` refers to no row: there is a version only once it is compiled.
CREATE TABLE compile_run_rows (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  run_id               uuid NOT NULL,
  row_number           int NOT NULL CHECK (row_number > 0),
  sku                  text NOT NULL CHECK (sku <> ''),
  name                 text CHECK (name <> ''),
  snapshot_id          uuid,
  activate             boolean NOT NULL,
  passport_version_id  uuid,
  problem_code         text,
  problem_message      text,
  PRIMARY KEY (tenant_id, run_id, row_number),
  CONSTRAINT compile_run_rows_problem_whole CHECK ((problem_code IS NULL) = (problem_message IS NULL)),
  FOREIGN KEY (tenant_id, run_id) REFERENCES compile_runs
);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['compile_runs', 'compile_run_rows'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant_id = (SELECT current_tenant())) '
                   'WITH CHECK (tenant_id = (SELECT current_tenant()))', tenant_table);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO bpc_app', tenant_table);
  END LOOP;
END $$;
GRANT UPDATE (cancelled_at) ON compile_runs TO bpc_app;
GRANT UPDATE (passport_version_id, problem_code, problem_message) ON compile_run_rows TO bpc_app;

CREATE TRIGGER compile_runs_frozen
  BEFORE UPDATE OF tenant_id, run_id, rule_package_version_id, activate, total, batch_id, created_at, created_by
  ON compile_runs FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER compile_runs_cancelled_once BEFORE UPDATE OF cancelled_at ON compile_runs
  FOR EACH ROW WHEN (OLD.cancelled_at IS NOT NULL) EXECUTE FUNCTION refuse('a run is cancelled once');
CREATE TRIGGER compile_runs_stay BEFORE DELETE ON compile_runs
  FOR EACH ROW EXECUTE FUNCTION refuse('a run is never deleted');
CREATE TRIGGER compile_runs_not_truncated BEFORE TRUNCATE ON compile_runs
  EXECUTE FUNCTION refuse('runs are never deleted');
CREATE TRIGGER compile_run_rows_frozen
  BEFORE UPDATE OF tenant_id, run_id, row_number, sku, name, snapshot_id, activate
  ON compile_run_rows FOR EACH ROW EXECUTE FUNCTION refuse('what a row was asked for never changes');
CREATE TRIGGER compile_run_rows_begun_once BEFORE UPDATE OF passport_version_id, problem_code, problem_message
  ON compile_run_rows FOR EACH ROW WHEN (OLD.passport_version_id IS NOT NULL)
  EXECUTE FUNCTION refuse('a row asks for one version');
CREATE TRIGGER compile_run_rows_stay BEFORE DELETE ON compile_run_rows
  FOR EACH ROW EXECUTE FUNCTION refuse('a row of a run is never deleted');
CREATE TRIGGER compile_run_rows_not_truncated BEFORE TRUNCATE ON compile_run_rows
  EXECUTE FUNCTION refuse('rows of runs are never deleted');

-- The nightly audit replays what counts, those first that were not looked at for longest.
ALTER TABLE passport_versions ADD COLUMN replayed_at timestamptz;
GRANT UPDATE (replayed_at) ON passport_versions TO bpc_app;
CREATE INDEX passport_versions_to_replay
  ON passport_versions (tenant_id, replayed_at NULLS FIRST, passport_version_id) WHERE status = 'ACTIVE';
