-- Passports of batches. A batch lies below one version of its model; batteries of it lie below one version of the batch.
-- What its bytes depend on is fixed when it is requested. There are few, so the bytes are in the row.

CREATE TABLE batch_passport_versions (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  passport_version_id      uuid NOT NULL,
  battery_batch_id         uuid NOT NULL,
  model_version_id         uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  model_receipt_hash       bytea NOT NULL CHECK (octet_length(model_receipt_hash) = 32),
  dsl_sha256               bytea NOT NULL CHECK (octet_length(dsl_sha256) = 32),
  compiler_build_id        text NOT NULL CHECK (compiler_build_id <> ''),
  signing_key_id           text NOT NULL CHECK (signing_key_id <> ''),
  secret                   text NOT NULL CHECK (secret <> ''),
  facts                    bytea NOT NULL CHECK (octet_length(facts) > 0),
  requested_at             timestamptz NOT NULL,
  requested_by             uuid,
  content                  bytea,
  signature                bytea CHECK (octet_length(signature) = 64),
  receipt_hash             bytea CHECK (octet_length(receipt_hash) = 32),
  fail_count               int CHECK (fail_count >= 0),
  warn_count               int CHECK (warn_count >= 0),
  refusal                  text CHECK (refusal <> ''),
  ended_at                 timestamptz,
  PRIMARY KEY (tenant_id, passport_version_id),
  FOREIGN KEY (tenant_id, battery_batch_id) REFERENCES battery_batches,
  FOREIGN KEY (tenant_id, model_version_id) REFERENCES passport_versions,
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions,
  FOREIGN KEY (tenant_id, requested_by) REFERENCES actors,
  -- The newest that was not refused counts.
  CONSTRAINT batch_passport_versions_time_key UNIQUE (tenant_id, battery_batch_id, requested_at),
  CONSTRAINT batch_passport_versions_whole CHECK (
    CASE WHEN ended_at IS NULL
         THEN num_nonnulls(content, signature, receipt_hash, fail_count, warn_count, refusal) = 0
         ELSE num_nonnulls(content, signature, receipt_hash, fail_count, warn_count)
              = CASE WHEN refusal IS NULL THEN 5 ELSE 0 END END)
);
-- Retention asks which models are pinned.
CREATE INDEX batch_passport_versions_of_model ON batch_passport_versions (tenant_id, model_version_id);

-- The batteries of a chunk lie below one version of one batch, or directly below their model.
ALTER TABLE item_chunks ADD COLUMN batch_version_id uuid;
ALTER TABLE item_chunks ADD FOREIGN KEY (tenant_id, batch_version_id) REFERENCES batch_passport_versions;

ALTER TABLE batch_passport_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE batch_passport_versions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON batch_passport_versions USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON batch_passport_versions TO bpc_app;
GRANT UPDATE (content, signature, receipt_hash, fail_count, warn_count, refusal, ended_at)
  ON batch_passport_versions TO bpc_app;

CREATE TRIGGER batch_passport_versions_frozen
  BEFORE UPDATE OF tenant_id, passport_version_id, battery_batch_id, model_version_id, rule_package_version_id,
                   model_receipt_hash, dsl_sha256, compiler_build_id, signing_key_id, secret, facts, requested_at,
                   requested_by
  ON batch_passport_versions FOR EACH ROW
  EXECUTE FUNCTION refuse('what the passport of a batch was asked for never changes');
CREATE TRIGGER batch_passport_versions_issued_once BEFORE UPDATE ON batch_passport_versions
  FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION refuse('the passport of a batch is issued once');
CREATE TRIGGER batch_passport_versions_stay BEFORE DELETE ON batch_passport_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('the passport of a batch is never deleted');
CREATE TRIGGER batch_passport_versions_not_truncated BEFORE TRUNCATE ON batch_passport_versions
  EXECUTE FUNCTION refuse('passports of batches are never deleted');

DROP TRIGGER item_chunks_frozen ON item_chunks;
CREATE TRIGGER item_chunks_frozen
  BEFORE UPDATE OF tenant_id, item_chunk_id, item_run_id, battery_product_id, chunk_number, total, source_sha256,
                   batch_version_id
  ON item_chunks FOR EACH ROW EXECUTE FUNCTION refuse('what a chunk was asked for never changes');
