-- A bulk compile leaves out passports that would say the same again. Runs that the previous program requests compile
-- everything, as they did. A row that was left out names the active version, so the previous program shows it as issued.
ALTER TABLE compile_runs ADD COLUMN skip_unchanged boolean NOT NULL DEFAULT false;
ALTER TABLE compile_run_rows ADD COLUMN is_unchanged boolean NOT NULL DEFAULT false;
ALTER TABLE compile_run_rows
  ADD CONSTRAINT compile_run_rows_unchanged_names_version CHECK (NOT is_unchanged OR passport_version_id IS NOT NULL);
GRANT UPDATE (is_unchanged) ON compile_run_rows TO bpc_app;

CREATE TRIGGER compile_runs_skipping_frozen BEFORE UPDATE OF skip_unchanged ON compile_runs
  FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER compile_run_rows_unchanged_once BEFORE UPDATE OF is_unchanged ON compile_run_rows
  FOR EACH ROW WHEN (OLD.passport_version_id IS NOT NULL) EXECUTE FUNCTION refuse('a row asks for one version');
