-- Passports of single batteries. A run fixes everything that their bytes depend on. It is issued in chunks: each is one
-- transaction with one event, whose root covers the rows it wrote. Artefacts are in packs, files that are created once.

CREATE TABLE item_runs (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  item_run_id              uuid NOT NULL,
  battery_product_id       uuid NOT NULL,
  model_version_id         uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  model_receipt_hash       bytea NOT NULL CHECK (octet_length(model_receipt_hash) = 32),
  dsl_sha256               bytea NOT NULL CHECK (octet_length(dsl_sha256) = 32),
  request_hash             bytea NOT NULL CHECK (octet_length(request_hash) = 32),
  compiler_build_id        text NOT NULL CHECK (compiler_build_id <> ''),
  signing_key_id           text NOT NULL CHECK (signing_key_id <> ''),
  secret                   text NOT NULL CHECK (secret <> ''),
  total                    int NOT NULL CHECK (total > 0),
  unchanged                int NOT NULL CHECK (unchanged >= 0),
  resumed                  int NOT NULL DEFAULT 0 CHECK (resumed >= 0),
  requested_at             timestamptz NOT NULL,
  requested_by             uuid,
  stopped_at               timestamptz,
  PRIMARY KEY (tenant_id, item_run_id),
  FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products,
  FOREIGN KEY (tenant_id, model_version_id) REFERENCES passport_versions,
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions,
  FOREIGN KEY (tenant_id, requested_by) REFERENCES actors,
  -- The same request again is the same run.
  CONSTRAINT item_runs_request_key UNIQUE (tenant_id, request_hash)
);
CREATE INDEX item_runs_by_time ON item_runs (tenant_id, requested_at, item_run_id);
-- Retention asks which models are pinned.
CREATE INDEX item_runs_of_model ON item_runs (tenant_id, model_version_id);

-- `source` are the rows as they were requested, until they are issued; then they are in the pack.
CREATE TABLE item_chunks (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  item_chunk_id       uuid NOT NULL,
  item_run_id         uuid NOT NULL,
  battery_product_id  uuid NOT NULL,
  chunk_number        int NOT NULL CHECK (chunk_number > 0),
  total               int NOT NULL CHECK (total BETWEEN 1 AND 1024),
  source_sha256       bytea NOT NULL CHECK (octet_length(source_sha256) = 32),
  source              bytea,
  battery_ids         uuid[],
  issued              int CHECK (issued BETWEEN 0 AND total),
  refusals            jsonb,
  tree_seed           bytea CHECK (octet_length(tree_seed) = 32),
  root                bytea CHECK (octet_length(root) = 32),
  leaf_hashes         bytea CHECK (octet_length(leaf_hashes) = 32 * issued),
  pack_sha256         bytea CHECK (octet_length(pack_sha256) = 32),
  pack_bytes          int CHECK (pack_bytes > 0),
  started_at          timestamptz,
  issued_at           timestamptz,
  PRIMARY KEY (tenant_id, item_chunk_id),
  FOREIGN KEY (tenant_id, item_run_id) REFERENCES item_runs,
  CONSTRAINT item_chunks_number_key UNIQUE (tenant_id, item_run_id, chunk_number),
  CONSTRAINT item_chunks_whole CHECK (
    CASE WHEN issued_at IS NULL
         THEN num_nonnulls(source, battery_ids) = 2
              AND num_nonnulls(issued, refusals, tree_seed, root, leaf_hashes, pack_sha256, pack_bytes, started_at) = 0
         ELSE num_nonnulls(source, battery_ids) = 0
              AND num_nonnulls(issued, refusals, tree_seed, root, leaf_hashes, started_at) = 6
              AND num_nonnulls(pack_sha256, pack_bytes) = CASE WHEN issued > 0 THEN 2 ELSE 0 END END)
);
CREATE INDEX item_chunks_waiting ON item_chunks (tenant_id, battery_product_id) WHERE issued_at IS NULL;
-- Neither hashes nor what is compressed become shorter.
ALTER TABLE item_chunks ALTER COLUMN leaf_hashes SET STORAGE EXTERNAL;
ALTER TABLE item_chunks ALTER COLUMN source SET STORAGE EXTERNAL;

-- One version of one battery. Its artefacts are at `pack_offset` of its chunk's pack. The newest of a battery counts.
CREATE TABLE item_passport_versions (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  battery_id           uuid NOT NULL,
  passport_version_id  uuid NOT NULL,
  item_chunk_id        uuid NOT NULL,
  issued_at            timestamptz NOT NULL,
  leaf_number          int NOT NULL CHECK (leaf_number BETWEEN 0 AND 1023),
  pack_offset          int NOT NULL CHECK (pack_offset > 0),
  pack_length          int NOT NULL CHECK (pack_length > 0),
  fail_count           int NOT NULL CHECK (fail_count >= 0),
  warn_count           int NOT NULL CHECK (warn_count >= 0),
  status               text NOT NULL CHECK (status = 'ISSUED'),
  receipt_hash         bytea NOT NULL CHECK (octet_length(receipt_hash) = 32),
  input_hash           bytea NOT NULL CHECK (octet_length(input_hash) = 32),
  -- A run has one moment, so it never issues a battery twice.
  PRIMARY KEY (tenant_id, battery_id, issued_at),
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  FOREIGN KEY (tenant_id, item_chunk_id) REFERENCES item_chunks,
  CONSTRAINT item_passport_versions_leaf_key UNIQUE (tenant_id, item_chunk_id, leaf_number)
);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['item_runs', 'item_chunks', 'item_passport_versions'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant_id = (SELECT current_tenant())) '
                   'WITH CHECK (tenant_id = (SELECT current_tenant()))', tenant_table);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO bpc_app', tenant_table);
  END LOOP;
END $$;
GRANT UPDATE (stopped_at, resumed) ON item_runs TO bpc_app;
GRANT UPDATE (source, battery_ids, issued, refusals, tree_seed, root, leaf_hashes, pack_sha256, pack_bytes, started_at,
              issued_at) ON item_chunks TO bpc_app;

CREATE TRIGGER item_runs_frozen
  BEFORE UPDATE OF tenant_id, item_run_id, battery_product_id, model_version_id, rule_package_version_id,
                   model_receipt_hash, dsl_sha256, request_hash, compiler_build_id, signing_key_id, secret, total,
                   unchanged, requested_at, requested_by
  ON item_runs FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER item_runs_stay BEFORE DELETE ON item_runs
  FOR EACH ROW EXECUTE FUNCTION refuse('a run is never deleted');
CREATE TRIGGER item_runs_not_truncated BEFORE TRUNCATE ON item_runs
  EXECUTE FUNCTION refuse('runs are never deleted');
CREATE TRIGGER item_chunks_frozen
  BEFORE UPDATE OF tenant_id, item_chunk_id, item_run_id, battery_product_id, chunk_number, total, source_sha256
  ON item_chunks FOR EACH ROW EXECUTE FUNCTION refuse('what a chunk was asked for never changes');
CREATE TRIGGER item_chunks_issued_once BEFORE UPDATE ON item_chunks
  FOR EACH ROW WHEN (OLD.issued_at IS NOT NULL) EXECUTE FUNCTION refuse('a chunk is issued once');
CREATE TRIGGER item_chunks_stay BEFORE DELETE ON item_chunks
  FOR EACH ROW EXECUTE FUNCTION refuse('a chunk of a run is never deleted');
CREATE TRIGGER item_chunks_not_truncated BEFORE TRUNCATE ON item_chunks
  EXECUTE FUNCTION refuse('chunks of runs are never deleted');
CREATE TRIGGER item_passport_versions_never_change BEFORE UPDATE OR DELETE ON item_passport_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('the passport of a battery is never changed or deleted');
CREATE TRIGGER item_passport_versions_not_truncated BEFORE TRUNCATE ON item_passport_versions
  EXECUTE FUNCTION refuse('passports of batteries are never deleted');
