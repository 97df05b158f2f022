-- A version that is signed in the transaction that compiles it is stored once, as SIGNED. It gets its place in a status
-- list as one does that becomes SIGNED later.
CREATE TRIGGER passport_versions_begin_with_a_status AFTER INSERT ON passport_versions
  FOR EACH ROW WHEN (NEW.status = 'SIGNED') EXECUTE FUNCTION follow_version_status();
