-- locks: compile_runs: two indexes over a table with a row for each bulk compile
-- Whether the end of a bulk compile is still to be recorded. Those of earlier releases are not looked at any more.
ALTER TABLE compile_runs ADD COLUMN is_open boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS compile_runs_open ON compile_runs (tenant_id, created_at, run_id) WHERE is_open;
CREATE INDEX IF NOT EXISTS compile_runs_cancelled ON compile_runs (tenant_id, created_at, run_id)
  WHERE cancelled_at IS NOT NULL;
CREATE TRIGGER compile_runs_closed_once BEFORE UPDATE OF is_open ON compile_runs
  FOR EACH ROW WHEN (NOT OLD.is_open) EXECUTE FUNCTION refuse('the end of a run is recorded once');
GRANT UPDATE (is_open) ON compile_runs TO bpc_app;
