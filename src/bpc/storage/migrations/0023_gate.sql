-- What a tenant decides for itself. A tenant without a row has the defaults.
CREATE TABLE tenant_settings (
  tenant_id                    uuid PRIMARY KEY REFERENCES tenants,
  activation_blocked_by        text NOT NULL DEFAULT 'FAIL'
                               CONSTRAINT tenant_settings_blocked_by_check
                               CHECK (activation_blocked_by IN ('FAIL', 'FAIL_AND_WARN', 'NOTHING')),
  minimum_branch_coverage_pct  int NOT NULL DEFAULT 80
                               CONSTRAINT tenant_settings_coverage_check
                               CHECK (minimum_branch_coverage_pct BETWEEN 0 AND 100),
  changed_at                   timestamptz NOT NULL DEFAULT now(),
  changed_by                   uuid,
  FOREIGN KEY (tenant_id, changed_by) REFERENCES actors
);

ALTER TABLE tenant_settings ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_settings FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant_settings USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT, UPDATE (activation_blocked_by, minimum_branch_coverage_pct, changed_at, changed_by)
  ON tenant_settings TO bpc_app;

-- Compliance entries of one version that do not block its activation, each by its code and the field whose rule
-- reported it. `entries` is how many the payload has of them. No foreign key to the version: retention removes
-- versions, and who waived what stays.
CREATE TABLE passport_waivers (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  waiver_id            uuid NOT NULL,
  passport_version_id  uuid NOT NULL,
  code                 text NOT NULL,
  field                text NOT NULL CHECK (field <> ''),
  entries              int NOT NULL CHECK (entries >= 1),
  reason               text NOT NULL CHECK (reason <> ''),
  waived_at            timestamptz NOT NULL DEFAULT now(),
  waived_by            uuid,
  PRIMARY KEY (tenant_id, waiver_id),
  CONSTRAINT passport_waivers_once UNIQUE (tenant_id, passport_version_id, field, code),
  FOREIGN KEY (tenant_id, waived_by) REFERENCES actors
);

ALTER TABLE passport_waivers ENABLE ROW LEVEL SECURITY;
ALTER TABLE passport_waivers FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passport_waivers USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON passport_waivers TO bpc_app;

CREATE TRIGGER passport_waivers_never_change BEFORE UPDATE OR DELETE ON passport_waivers
  FOR EACH ROW EXECUTE FUNCTION refuse('a waiver is never changed or deleted');
CREATE TRIGGER passport_waivers_not_truncated BEFORE TRUNCATE ON passport_waivers
  EXECUTE FUNCTION refuse('waivers are never deleted');

-- How many entries of a version are FAIL and WARN. Versions that were compiled before have NULL, as have those of the
-- program before this file, which compiles while this one is rolled out: they are counted when they are read.
ALTER TABLE passport_versions ADD COLUMN fail_count int CHECK (fail_count >= 0),
                              ADD COLUMN warn_count int CHECK (warn_count >= 0);
CREATE TRIGGER passport_versions_counts_frozen BEFORE UPDATE OF fail_count, warn_count ON passport_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('a passport version never changes');

-- `json` refuses the escape of U+0000, which a text in a payload may contain; a status never does. Escaped backslashes
-- go first: after one of them, `u0000` is text.
CREATE FUNCTION count_compliance(payload bytea, wanted text) RETURNS int
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT count(*)::int
    FROM json_array_elements(
           replace(replace(convert_from(payload, 'UTF8'), '\\', ''), '\u0000', '')::json -> 'compliance') AS entry
   WHERE entry ->> 'status' = wanted
$$;
REVOKE ALL ON FUNCTION count_compliance(bytea, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_compliance(bytea, text) TO bpc_app;

-- No role gets it here: who may waive is decided by an administrator, on record.
INSERT INTO permissions (permission) VALUES ('passport:waive');
