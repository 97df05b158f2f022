-- Whether a bulk compile leaves out passports that would say the same again. Runs that the previous program requests
-- compile everything, as they did.
ALTER TABLE compile_runs ADD COLUMN skip_unchanged boolean NOT NULL DEFAULT false;
CREATE TRIGGER compile_runs_skipping_frozen BEFORE UPDATE OF skip_unchanged ON compile_runs
  FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
