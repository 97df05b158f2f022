-- Tables. Every tenant's row carries its tenant_id, first in every key, so that no row can point into another
-- tenant and the schema can be spread by tenant without change. Nothing is ever deleted by cascade.
-- Hashes are the 32 raw bytes of SHA-256. What is hashed is stored as bytea; jsonb beside it is for queries only.

CREATE TYPE actor_type AS ENUM ('USER', 'API_CLIENT', 'SERVICE');
CREATE TYPE document_kind AS ENUM ('BOM', 'PCF', 'DUE_DILIGENCE', 'OTHER');
CREATE TYPE document_status AS ENUM ('UPLOADED', 'PARSED', 'VALIDATED', 'REJECTED');
CREATE TYPE snapshot_status AS ENUM ('BUILDING', 'READY', 'SEALED');
CREATE TYPE rule_pkg_status AS ENUM ('DRAFT', 'VALIDATED', 'PUBLISHED', 'DEPRECATED', 'RETIRED');
CREATE TYPE passport_status AS ENUM ('COMPILING', 'SIGNED', 'ACTIVE', 'SUPERSEDED', 'REVOKED');
CREATE TYPE access_decision AS ENUM ('ALLOW', 'DENY');
CREATE TYPE signing_key_status AS ENUM ('ACTIVE', 'RETIRED');

CREATE DOMAIN hash256 AS bytea CHECK (octet_length(VALUE) = 32);

-- Who -------------------------------------------------------------------------------------------------------

CREATE TABLE tenants (
  tenant_id   uuid PRIMARY KEY,
  slug        text NOT NULL CONSTRAINT tenants_slug_key UNIQUE
              CONSTRAINT tenants_slug_form CHECK (slug ~ '^[a-z0-9-]{3,64}$'),
  name        text NOT NULL CHECK (name <> ''),
  is_active   boolean NOT NULL DEFAULT true,
  created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE actors (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  actor_id      uuid NOT NULL,
  type          actor_type NOT NULL,
  display_name  text NOT NULL CHECK (display_name <> ''),
  email         text,
  is_active     boolean NOT NULL DEFAULT true,
  created_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, actor_id),
  CONSTRAINT actors_email_key UNIQUE (tenant_id, email)
);

-- A key's prefix is unique over all tenants: it is all that a request shows before we know whose it is.
CREATE TABLE api_key_prefixes (
  key_prefix  text PRIMARY KEY,
  tenant_id   uuid NOT NULL REFERENCES tenants,
  CONSTRAINT api_key_prefixes_of_tenant_key UNIQUE (tenant_id, key_prefix)
);

CREATE TABLE api_keys (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  api_key_id    uuid NOT NULL,
  actor_id      uuid NOT NULL,
  key_prefix    text NOT NULL,
  key_hash      hash256 NOT NULL,
  label         text,
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  revoked_at    timestamptz,
  last_used_at  timestamptz,
  PRIMARY KEY (tenant_id, api_key_id),
  CONSTRAINT api_keys_prefix_key UNIQUE (tenant_id, key_prefix),
  CONSTRAINT api_keys_hash_key UNIQUE (tenant_id, key_hash),
  FOREIGN KEY (tenant_id, actor_id) REFERENCES actors,
  FOREIGN KEY (tenant_id, key_prefix) REFERENCES api_key_prefixes (tenant_id, key_prefix)
);
CREATE INDEX api_keys_of_actor ON api_keys (tenant_id, actor_id);

CREATE TABLE permissions (
  permission  text PRIMARY KEY
);

CREATE TABLE roles (
  tenant_id  uuid NOT NULL REFERENCES tenants,
  role_id    uuid NOT NULL,
  name       text NOT NULL CHECK (name <> ''),
  PRIMARY KEY (tenant_id, role_id),
  CONSTRAINT roles_name_key UNIQUE (tenant_id, name)
);

CREATE TABLE role_permissions (
  tenant_id   uuid NOT NULL REFERENCES tenants,
  role_id     uuid NOT NULL,
  permission  text NOT NULL REFERENCES permissions,
  PRIMARY KEY (tenant_id, role_id, permission),
  FOREIGN KEY (tenant_id, role_id) REFERENCES roles
);

CREATE TABLE actor_roles (
  tenant_id   uuid NOT NULL REFERENCES tenants,
  actor_id    uuid NOT NULL,
  role_id     uuid NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, actor_id, role_id),
  FOREIGN KEY (tenant_id, actor_id) REFERENCES actors,
  FOREIGN KEY (tenant_id, role_id) REFERENCES roles
);

CREATE TABLE policies (
  tenant_id   uuid NOT NULL REFERENCES tenants,
  policy_id   uuid NOT NULL,
  name        text NOT NULL CHECK (name <> ''),
  created_at  timestamptz NOT NULL DEFAULT now(),
  created_by  uuid,
  PRIMARY KEY (tenant_id, policy_id),
  CONSTRAINT policies_name_key UNIQUE (tenant_id, name),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);

CREATE TABLE policy_versions (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  policy_version_id  uuid NOT NULL,
  policy_id          uuid NOT NULL,
  version            int NOT NULL CHECK (version >= 1),
  is_active          boolean NOT NULL DEFAULT true,
  effect             access_decision NOT NULL,
  target             text NOT NULL,
  priority           int NOT NULL DEFAULT 100,
  policy_json        jsonb NOT NULL,
  policy_canonical   bytea NOT NULL,
  policy_hash        hash256 NOT NULL,
  created_at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, policy_version_id),
  CONSTRAINT policy_versions_version_key UNIQUE (tenant_id, policy_id, version),
  FOREIGN KEY (tenant_id, policy_id) REFERENCES policies
);
CREATE INDEX policy_versions_active ON policy_versions (tenant_id, priority) WHERE is_active;

-- What happened ---------------------------------------------------------------------------------------------

CREATE TABLE events (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  event_id           uuid NOT NULL,
  aggregate_type     text NOT NULL,
  aggregate_id       uuid NOT NULL,
  aggregate_version  bigint NOT NULL CHECK (aggregate_version >= 1),
  event_type         text NOT NULL,
  occurred_at        timestamptz NOT NULL
                     CONSTRAINT events_time_has_a_form CHECK (occurred_at >= '0001-01-01 UTC' AND occurred_at < '10000-01-01 UTC'),
  actor_id           uuid,
  payload            jsonb NOT NULL,
  payload_canonical  bytea NOT NULL,
  payload_hash       hash256 NOT NULL,
  prev_event_hash    hash256,
  event_hash         hash256 NOT NULL,
  PRIMARY KEY (tenant_id, event_id),
  CONSTRAINT events_chain_key UNIQUE (tenant_id, aggregate_type, aggregate_id, aggregate_version),
  FOREIGN KEY (tenant_id, actor_id) REFERENCES actors
);
CREATE INDEX events_by_time ON events (tenant_id, occurred_at, event_id);
CREATE INDEX events_by_type_time ON events (tenant_id, event_type, occurred_at);

-- Where a chain begins after retention has removed its first events.
CREATE TABLE event_anchors (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  aggregate_type     text NOT NULL,
  aggregate_id       uuid NOT NULL,
  aggregate_version  bigint NOT NULL CHECK (aggregate_version >= 1),
  event_hash         hash256 NOT NULL,
  PRIMARY KEY (tenant_id, aggregate_type, aggregate_id)
);

-- From documents to facts to snapshots ----------------------------------------------------------------------

CREATE TABLE documents (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  document_id   uuid NOT NULL,
  kind          document_kind NOT NULL,
  external_ref  text,
  is_active     boolean NOT NULL DEFAULT true,
  created_at    timestamptz NOT NULL DEFAULT now(),
  created_by    uuid,
  PRIMARY KEY (tenant_id, document_id),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);
CREATE INDEX documents_by_time ON documents (tenant_id, created_at, document_id);

-- Retention removes the content and nothing else: row, hash and provenance stay.
CREATE TABLE document_versions (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  document_version_id  uuid NOT NULL,
  document_id          uuid NOT NULL,
  version              int NOT NULL CHECK (version >= 1),
  status               document_status NOT NULL,
  mime_type            text NOT NULL,
  sha256               hash256 NOT NULL,
  content              bytea,
  content_removed_at   timestamptz,
  uploaded_at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, document_version_id),
  CONSTRAINT document_versions_version_key UNIQUE (tenant_id, document_id, version),
  CONSTRAINT document_versions_sha256_key UNIQUE (tenant_id, sha256),
  CONSTRAINT document_versions_content_or_removed CHECK ((content IS NULL) = (content_removed_at IS NOT NULL)),
  FOREIGN KEY (tenant_id, document_id) REFERENCES documents
);

-- The Blinding fact is made by us and has no document; every other fact has one.
CREATE TABLE facts (
  tenant_id                   uuid NOT NULL REFERENCES tenants,
  fact_id                     uuid NOT NULL,
  fact_type                   text NOT NULL,
  fact_key                    text NOT NULL,
  schema_version              int NOT NULL CHECK (schema_version >= 1),
  source_document_version_id  uuid,
  source_path                 text,
  payload                     jsonb NOT NULL,
  payload_canonical           bytea NOT NULL,
  payload_hash                hash256 NOT NULL,
  created_at                  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, fact_id),
  CONSTRAINT facts_same_fact_key UNIQUE (tenant_id, fact_type, fact_key, schema_version, payload_hash),
  CONSTRAINT facts_have_a_source CHECK ((fact_type = 'Blinding') = (source_document_version_id IS NULL)),
  FOREIGN KEY (tenant_id, source_document_version_id) REFERENCES document_versions
);
CREATE INDEX facts_by_key ON facts (tenant_id, fact_type, fact_key text_pattern_ops);
CREATE INDEX facts_by_time ON facts (tenant_id, created_at, fact_id);
CREATE INDEX facts_of_document ON facts (tenant_id, source_document_version_id);

CREATE TABLE fact_sources (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  fact_id              uuid NOT NULL,
  document_version_id  uuid NOT NULL,
  source_path          text NOT NULL,
  PRIMARY KEY (tenant_id, fact_id, document_version_id, source_path),
  FOREIGN KEY (tenant_id, fact_id) REFERENCES facts,
  FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions
);
CREATE INDEX fact_sources_of_document ON fact_sources (tenant_id, document_version_id);

CREATE TABLE data_snapshots (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  snapshot_id         uuid NOT NULL,
  status              snapshot_status NOT NULL,
  label               text,
  created_at          timestamptz NOT NULL DEFAULT now(),
  created_by          uuid,
  sealed_at           timestamptz,
  snapshot_canonical  bytea,
  snapshot_hash       hash256,
  PRIMARY KEY (tenant_id, snapshot_id),
  CONSTRAINT data_snapshots_sealed_is_complete CHECK (
    (status = 'SEALED') = (sealed_at IS NOT NULL)
    AND (status = 'SEALED') = (snapshot_canonical IS NOT NULL)
    AND (status = 'SEALED') = (snapshot_hash IS NOT NULL)),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);
CREATE INDEX data_snapshots_by_time ON data_snapshots (tenant_id, created_at, snapshot_id);

CREATE TABLE snapshot_items (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  snapshot_id  uuid NOT NULL,
  fact_id      uuid NOT NULL,
  PRIMARY KEY (tenant_id, snapshot_id, fact_id),
  FOREIGN KEY (tenant_id, snapshot_id) REFERENCES data_snapshots,
  FOREIGN KEY (tenant_id, fact_id) REFERENCES facts
);
CREATE INDEX snapshot_items_of_fact ON snapshot_items (tenant_id, fact_id);

-- Rules -----------------------------------------------------------------------------------------------------

CREATE TABLE rule_packages (
  tenant_id        uuid NOT NULL REFERENCES tenants,
  rule_package_id  uuid NOT NULL,
  name             text NOT NULL CHECK (name <> ''),
  description      text,
  is_active        boolean NOT NULL DEFAULT true,
  created_at       timestamptz NOT NULL DEFAULT now(),
  created_by       uuid,
  PRIMARY KEY (tenant_id, rule_package_id),
  CONSTRAINT rule_packages_name_key UNIQUE (tenant_id, name),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);

CREATE TABLE rule_package_versions (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  rule_package_version_id  uuid NOT NULL,
  rule_package_id          uuid NOT NULL,
  version                  int NOT NULL CHECK (version >= 1),
  status                   rule_pkg_status NOT NULL,
  created_at               timestamptz NOT NULL DEFAULT now(),
  published_at             timestamptz,
  compiler_min_build       text NOT NULL,
  dsl_source               bytea NOT NULL,
  dsl_sha256               hash256 NOT NULL,
  tests_source             bytea NOT NULL,
  tests_sha256             hash256 NOT NULL,
  PRIMARY KEY (tenant_id, rule_package_version_id),
  CONSTRAINT rule_package_versions_version_key UNIQUE (tenant_id, rule_package_id, version),
  CONSTRAINT rule_package_versions_sources_key UNIQUE (tenant_id, dsl_sha256, tests_sha256),
  FOREIGN KEY (tenant_id, rule_package_id) REFERENCES rule_packages
);

CREATE TABLE rule_fields (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  rule_field_id            uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  field_path               text NOT NULL,
  field_type               text NOT NULL,
  audiences                text[] NOT NULL DEFAULT '{}',
  required                 boolean NOT NULL DEFAULT true,
  PRIMARY KEY (tenant_id, rule_field_id),
  CONSTRAINT rule_fields_path_key UNIQUE (tenant_id, rule_package_version_id, field_path),
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions
);

CREATE TABLE rule_tests_runs (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  run_id                   uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  seed                     bigint NOT NULL,
  cases                    int NOT NULL CHECK (cases >= 0),
  passed                   int NOT NULL CHECK (passed >= 0),
  failed                   int NOT NULL CHECK (failed >= 0),
  discarded                int NOT NULL CHECK (discarded >= 0),
  status                   text NOT NULL CHECK (status IN ('PASSED', 'FAILED')),
  coverage                 jsonb,
  failure                  jsonb,
  created_at               timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, run_id),
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions
);
CREATE INDEX rule_tests_runs_by_version ON rule_tests_runs (tenant_id, rule_package_version_id, created_at DESC);

-- Passports -------------------------------------------------------------------------------------------------

CREATE TABLE battery_products (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  battery_product_id  uuid NOT NULL,
  sku                 text NOT NULL CHECK (sku <> ''),
  name                text NOT NULL CHECK (name <> ''),
  is_active           boolean NOT NULL DEFAULT true,
  created_at          timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, battery_product_id),
  CONSTRAINT battery_products_sku_key UNIQUE (tenant_id, sku)
);

CREATE TABLE passports (
  tenant_id                    uuid NOT NULL REFERENCES tenants,
  passport_id                  uuid NOT NULL,
  battery_product_id           uuid NOT NULL,
  current_passport_version_id  uuid,
  created_at                   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, passport_id),
  CONSTRAINT passports_product_key UNIQUE (tenant_id, battery_product_id),
  FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products
);

-- Keys of the whole installation; the private halves never come here.
CREATE TABLE signing_keys (
  key_id      text PRIMARY KEY CHECK (key_id <> ''),
  public_key  bytea NOT NULL CHECK (octet_length(public_key) = 32),
  status      signing_key_status NOT NULL DEFAULT 'ACTIVE',
  created_at  timestamptz NOT NULL DEFAULT now(),
  retired_at  timestamptz,
  CHECK ((status = 'RETIRED') = (retired_at IS NOT NULL))
);

CREATE TABLE passport_versions (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  passport_version_id      uuid NOT NULL,
  passport_id              uuid NOT NULL,
  status                   passport_status NOT NULL,
  created_at               timestamptz NOT NULL DEFAULT now(),
  activated_at             timestamptz,
  superseded_at            timestamptz,
  revoked_at               timestamptz,
  snapshot_id              uuid NOT NULL,
  rule_package_version_id  uuid NOT NULL,
  compiler_build_id        text NOT NULL,
  payload_canonical        bytea NOT NULL,
  payload_hash             hash256 NOT NULL,
  proof_canonical          bytea NOT NULL,
  proof_root_hash          hash256 NOT NULL,
  receipt_canonical        bytea NOT NULL,
  receipt_hash             hash256 NOT NULL,
  signature_alg            text NOT NULL CHECK (signature_alg = 'ED25519'),
  signature                bytea CHECK (octet_length(signature) = 64),
  signing_key_id           text REFERENCES signing_keys,
  qr_png                   bytea,
  qr_payload               text,
  PRIMARY KEY (tenant_id, passport_version_id),
  CONSTRAINT passport_versions_of_passport_key UNIQUE (tenant_id, passport_id, passport_version_id),
  CONSTRAINT passport_versions_payload_key UNIQUE (tenant_id, passport_id, payload_hash),
  CONSTRAINT passport_versions_signed_has_signature CHECK (
    (status = 'COMPILING') = (signature IS NULL) AND (signature IS NULL OR signing_key_id IS NOT NULL)),
  FOREIGN KEY (tenant_id, passport_id) REFERENCES passports,
  FOREIGN KEY (tenant_id, snapshot_id) REFERENCES data_snapshots,
  FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions
);
CREATE INDEX passport_versions_by_time ON passport_versions (tenant_id, passport_id, created_at DESC);
CREATE INDEX passport_versions_by_hash ON passport_versions (tenant_id, payload_hash);
CREATE UNIQUE INDEX passport_versions_one_active ON passport_versions (tenant_id, passport_id)
  WHERE status = 'ACTIVE';

ALTER TABLE passports ADD CONSTRAINT passports_current_version_fkey
  FOREIGN KEY (tenant_id, passport_id, current_passport_version_id)
  REFERENCES passport_versions (tenant_id, passport_id, passport_version_id);

-- Talking to the world --------------------------------------------------------------------------------------

CREATE TABLE idempotency_keys (
  tenant_id         uuid NOT NULL REFERENCES tenants,
  key               text NOT NULL,
  request_hash      hash256 NOT NULL,
  response_status   int NOT NULL,
  response_headers  jsonb NOT NULL,
  response_body     bytea NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (tenant_id, created_at);

CREATE TABLE webhook_endpoints (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  webhook_endpoint_id  uuid NOT NULL,
  url                  text NOT NULL,
  secret_base64        text NOT NULL,
  is_active            boolean NOT NULL DEFAULT true,
  created_at           timestamptz NOT NULL DEFAULT now(),
  created_by           uuid,
  PRIMARY KEY (tenant_id, webhook_endpoint_id),
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors
);

CREATE TABLE webhook_subscriptions (
  tenant_id                uuid NOT NULL REFERENCES tenants,
  webhook_subscription_id  uuid NOT NULL,
  webhook_endpoint_id      uuid NOT NULL,
  event_type               text NOT NULL,
  created_at               timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, webhook_subscription_id),
  CONSTRAINT webhook_subscriptions_event_key UNIQUE (tenant_id, webhook_endpoint_id, event_type),
  FOREIGN KEY (tenant_id, webhook_endpoint_id) REFERENCES webhook_endpoints
);

CREATE TABLE webhook_deliveries (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  webhook_delivery_id  uuid NOT NULL,
  webhook_endpoint_id  uuid NOT NULL,
  event_id             uuid NOT NULL,
  attempt              int NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  status               text NOT NULL CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
  last_error           jsonb,
  created_at           timestamptz NOT NULL DEFAULT now(),
  delivered_at         timestamptz,
  PRIMARY KEY (tenant_id, webhook_delivery_id),
  FOREIGN KEY (tenant_id, webhook_endpoint_id) REFERENCES webhook_endpoints,
  FOREIGN KEY (tenant_id, event_id) REFERENCES events
);
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (tenant_id, status, created_at);

CREATE TABLE rate_limit_buckets (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  key_hash           hash256 NOT NULL,
  capacity           int NOT NULL,
  tokens             numeric NOT NULL,
  refill_per_second  numeric NOT NULL,
  updated_at         timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, key_hash)
);
