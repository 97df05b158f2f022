-- Bytes that were rejected may come again: as a document of another kind, or to a build that reads what the one before it
-- did not. All others are one version, whoever sends them and however often.

ALTER TABLE document_versions DROP CONSTRAINT document_versions_sha256_key;
CREATE UNIQUE INDEX document_versions_sha256_key ON document_versions (tenant_id, sha256) WHERE status <> 'REJECTED';
