-- A row of a bulk compile that was left out, because the version it names is active and says the same. The previous
-- program shows such a row as issued.
ALTER TABLE compile_run_rows ADD COLUMN is_unchanged boolean NOT NULL DEFAULT false;
GRANT UPDATE (is_unchanged) ON compile_run_rows TO bpc_app;
CREATE TRIGGER compile_run_rows_unchanged_once BEFORE UPDATE OF is_unchanged ON compile_run_rows
  FOR EACH ROW WHEN (OLD.passport_version_id IS NOT NULL) EXECUTE FUNCTION refuse('a row asks for one version');
