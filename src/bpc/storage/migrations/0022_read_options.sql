-- locks: document_versions: an index over the versions that were read again, of which there are none yet
-- How a version was to be read when it was uploaded: canonical JSON with the locale of its numbers and the column
-- mapping of its supplier. Only tables have options; the same bytes under the same options give the same facts.
ALTER TABLE document_versions ADD COLUMN read_options bytea NOT NULL DEFAULT '{}';

-- Bytes are one version, whatever they are read for. To read them again under other options takes a further version;
-- the hash of its bytes is in this column, and the column sha256 stays unique.
ALTER TABLE document_versions ALTER COLUMN sha256 DROP NOT NULL;
ALTER TABLE document_versions ADD COLUMN reread_sha256 hash256;
CREATE UNIQUE INDEX document_versions_reread_key ON document_versions (tenant_id, reread_sha256, sha256(read_options))
 WHERE reread_sha256 IS NOT NULL AND status <> 'REJECTED';
CREATE TRIGGER document_versions_reading_frozen BEFORE UPDATE OF read_options, reread_sha256 ON document_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('a document version never changes');
