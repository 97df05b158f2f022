-- Bytes that retention removed come back when exactly these bytes are uploaded again: the version is the same, and the
-- time of its retention starts again. Nothing else ever changes a content.
ALTER TABLE document_versions ADD COLUMN content_restored_at timestamptz;

DROP TRIGGER document_versions_content_stays ON document_versions;
CREATE TRIGGER document_versions_content_stays
  BEFORE UPDATE OF content, content_removed_at, content_restored_at ON document_versions
  FOR EACH ROW WHEN (NOT (
    current_user = 'bpc_system' AND OLD.content IS NOT NULL AND NEW.content IS NULL
      AND NEW.content_restored_at IS NOT DISTINCT FROM OLD.content_restored_at
    OR OLD.content IS NULL AND NEW.content IS NOT NULL AND NEW.content_restored_at IS NOT NULL
      AND sha256(NEW.content) = coalesce(OLD.sha256, OLD.reread_sha256)))
  EXECUTE FUNCTION refuse('a document''s content is only ever removed by retention, and comes back only as it was');

GRANT UPDATE (content, content_removed_at, content_restored_at) ON document_versions TO bpc_app;
