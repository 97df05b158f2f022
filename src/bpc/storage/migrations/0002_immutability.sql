-- What must not change is refused here, whoever asks: the triggers below also bind the tables' owner.
-- Each trigger's name stands for a refusal (bpc.db.failures); its argument is the sentence.

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'BP001', MESSAGE = TG_ARGV[0], TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;

-- A snapshot's list is open until it is sealed. The row lock makes a seal wait for us, or us for it.
CREATE FUNCTION refuse_when_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  -- Everything with its schema: a temporary table or type of the same name would be found first.
  item public.snapshot_items := coalesce(NEW, OLD);
  found_status public.snapshot_status;
BEGIN
  SELECT status INTO found_status FROM public.data_snapshots
   WHERE tenant_id = item.tenant_id AND snapshot_id = item.snapshot_id
     FOR SHARE;
  IF found_status = 'SEALED' THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = format('snapshot `%s` is sealed', item.snapshot_id);
  END IF;
  RETURN item;
END $$;

-- A rule version's fields are listed when it is made, not later.
CREATE FUNCTION refuse_unless_draft() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  found_status public.rule_pkg_status;
BEGIN
  SELECT status INTO found_status FROM public.rule_package_versions
   WHERE tenant_id = NEW.tenant_id AND rule_package_version_id = NEW.rule_package_version_id
     FOR SHARE;
  IF found_status <> 'DRAFT' THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'a rule version''s fields never change';
  END IF;
  RETURN NEW;
END $$;

-- Retention removes the beginning of a chain up to an anchor, and an anchor is put where an event is.
CREATE FUNCTION refuse_before_anchor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM public.event_anchors a
                  WHERE a.tenant_id = OLD.tenant_id AND a.aggregate_type = OLD.aggregate_type
                    AND a.aggregate_id = OLD.aggregate_id AND a.aggregate_version >= OLD.aggregate_version) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'an event is only ever removed behind an anchor';
  END IF;
  RETURN OLD;
END $$;

CREATE FUNCTION refuse_loose_anchor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM public.events e
                  WHERE e.tenant_id = NEW.tenant_id AND e.aggregate_type = NEW.aggregate_type
                    AND e.aggregate_id = NEW.aggregate_id AND e.aggregate_version = NEW.aggregate_version
                    AND e.event_hash = NEW.event_hash) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'an anchor is put where an event of that version and hash is';
  END IF;
  RETURN NEW;
END $$;

-- Events: never updated; deleted only by retention, which is the system role's.
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
  FOR EACH ROW EXECUTE FUNCTION refuse('an event is never changed');
CREATE TRIGGER events_stay BEFORE DELETE ON events
  FOR EACH ROW WHEN (current_user <> 'bpc_system') EXECUTE FUNCTION refuse('an event is never deleted');
CREATE TRIGGER events_go_behind_their_anchor BEFORE DELETE ON events
  FOR EACH ROW EXECUTE FUNCTION refuse_before_anchor();
CREATE TRIGGER events_not_truncated BEFORE TRUNCATE ON events
  EXECUTE FUNCTION refuse('events are never deleted');
CREATE TRIGGER event_anchors_hold BEFORE INSERT OR UPDATE ON event_anchors
  FOR EACH ROW EXECUTE FUNCTION refuse_loose_anchor();
CREATE TRIGGER event_anchors_forward BEFORE UPDATE ON event_anchors
  FOR EACH ROW WHEN (NEW.aggregate_version <= OLD.aggregate_version)
  EXECUTE FUNCTION refuse('an anchor only moves forward');
CREATE TRIGGER event_anchors_stay BEFORE DELETE ON event_anchors
  FOR EACH ROW EXECUTE FUNCTION refuse('an anchor is never deleted');
CREATE TRIGGER event_anchors_not_truncated BEFORE TRUNCATE ON event_anchors
  EXECUTE FUNCTION refuse('anchors are never deleted');

-- Document versions: the status moves on once; the content may be removed by retention and by nothing else.
CREATE TRIGGER document_versions_frozen
  BEFORE UPDATE OF tenant_id, document_version_id, document_id, version, mime_type, sha256, uploaded_at
  ON document_versions FOR EACH ROW EXECUTE FUNCTION refuse('a document version never changes');
CREATE TRIGGER document_versions_status_forward BEFORE UPDATE OF status ON document_versions
  FOR EACH ROW WHEN (NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN
    (('UPLOADED', 'PARSED'), ('UPLOADED', 'VALIDATED'), ('UPLOADED', 'REJECTED'),
     ('PARSED', 'VALIDATED'), ('PARSED', 'REJECTED')))
  EXECUTE FUNCTION refuse('a document version''s status only moves forward');
CREATE TRIGGER document_versions_content_stays BEFORE UPDATE OF content, content_removed_at ON document_versions
  FOR EACH ROW WHEN (NOT (current_user = 'bpc_system' AND OLD.content IS NOT NULL AND NEW.content IS NULL))
  EXECUTE FUNCTION refuse('a document''s content is only ever removed by retention');
CREATE TRIGGER document_versions_stay BEFORE DELETE ON document_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('a document version is never deleted');
CREATE TRIGGER document_versions_not_truncated BEFORE TRUNCATE ON document_versions
  EXECUTE FUNCTION refuse('document versions are never deleted');

-- Facts and where they come from.
CREATE TRIGGER facts_never_change BEFORE UPDATE OR DELETE ON facts
  FOR EACH ROW EXECUTE FUNCTION refuse('a fact is never changed or deleted');
CREATE TRIGGER facts_not_truncated BEFORE TRUNCATE ON facts
  EXECUTE FUNCTION refuse('facts are never deleted');
CREATE TRIGGER fact_sources_never_change BEFORE UPDATE OR DELETE ON fact_sources
  FOR EACH ROW EXECUTE FUNCTION refuse('a fact''s source is never changed or deleted');
CREATE TRIGGER fact_sources_not_truncated BEFORE TRUNCATE ON fact_sources
  EXECUTE FUNCTION refuse('facts'' sources are never deleted');

-- Snapshots: BUILDING and READY alternate, SEALED is for ever, with everything in it.
CREATE TRIGGER data_snapshots_frozen BEFORE UPDATE OF tenant_id, snapshot_id, created_at, created_by
  ON data_snapshots FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot''s identity never changes');
CREATE TRIGGER data_snapshots_sealed BEFORE UPDATE ON data_snapshots
  FOR EACH ROW WHEN (OLD.status = 'SEALED') EXECUTE FUNCTION refuse('the snapshot is sealed');
CREATE TRIGGER data_snapshots_ready_first BEFORE UPDATE OF status ON data_snapshots
  FOR EACH ROW WHEN (OLD.status = 'BUILDING' AND NEW.status = 'SEALED')
  EXECUTE FUNCTION refuse('only a ready snapshot can be sealed');
CREATE TRIGGER data_snapshots_stay BEFORE DELETE ON data_snapshots
  FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot is never deleted');
CREATE TRIGGER data_snapshots_not_truncated BEFORE TRUNCATE ON data_snapshots
  EXECUTE FUNCTION refuse('snapshots are never deleted');
CREATE TRIGGER snapshot_items_sealed BEFORE INSERT OR DELETE ON snapshot_items
  FOR EACH ROW EXECUTE FUNCTION refuse_when_sealed();
CREATE TRIGGER snapshot_items_never_change BEFORE UPDATE ON snapshot_items
  FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot''s item is added or removed, never changed');
CREATE TRIGGER snapshot_items_not_truncated BEFORE TRUNCATE ON snapshot_items
  EXECUTE FUNCTION refuse('snapshots'' items are never deleted at once');

-- Rules: a version's text never changes, its status only moves forward.
CREATE TRIGGER rule_package_versions_frozen
  BEFORE UPDATE OF tenant_id, rule_package_version_id, rule_package_id, version, created_at, compiler_min_build,
    dsl_source, dsl_sha256, tests_source, tests_sha256
  ON rule_package_versions FOR EACH ROW EXECUTE FUNCTION refuse('a rule version never changes');
CREATE TRIGGER rule_package_versions_status_forward BEFORE UPDATE OF status ON rule_package_versions
  FOR EACH ROW WHEN (NEW.status < OLD.status
    OR (NEW.status = 'PUBLISHED' AND OLD.status NOT IN ('VALIDATED', 'PUBLISHED'))
    OR (NEW.status = 'DEPRECATED' AND OLD.status NOT IN ('PUBLISHED', 'DEPRECATED')))
  EXECUTE FUNCTION refuse('a rule version''s status only moves forward');
CREATE TRIGGER rule_package_versions_published_once BEFORE UPDATE OF published_at ON rule_package_versions
  FOR EACH ROW WHEN (OLD.published_at IS NOT NULL AND NEW.published_at IS DISTINCT FROM OLD.published_at)
  EXECUTE FUNCTION refuse('a rule version is published once');
CREATE TRIGGER rule_package_versions_stay BEFORE DELETE ON rule_package_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('a rule version is retired, never deleted');
CREATE TRIGGER rule_package_versions_not_truncated BEFORE TRUNCATE ON rule_package_versions
  EXECUTE FUNCTION refuse('rule versions are never deleted');
CREATE TRIGGER rule_fields_come_with_a_draft BEFORE INSERT ON rule_fields
  FOR EACH ROW EXECUTE FUNCTION refuse_unless_draft();
CREATE TRIGGER rule_fields_never_change BEFORE UPDATE OR DELETE ON rule_fields
  FOR EACH ROW EXECUTE FUNCTION refuse('a rule version''s fields never change');
CREATE TRIGGER rule_fields_not_truncated BEFORE TRUNCATE ON rule_fields
  EXECUTE FUNCTION refuse('rule fields are never deleted');
CREATE TRIGGER rule_tests_runs_never_change BEFORE UPDATE OR DELETE ON rule_tests_runs
  FOR EACH ROW EXECUTE FUNCTION refuse('a test run''s result never changes');
CREATE TRIGGER rule_tests_runs_not_truncated BEFORE TRUNCATE ON rule_tests_runs
  EXECUTE FUNCTION refuse('test runs are never deleted');

-- Passport versions: artifacts never change; signature, key and signed receipt are written once and together, while
-- COMPILING, the QR code once; retention may remove superseded and revoked ones.
CREATE TRIGGER passport_versions_frozen
  BEFORE UPDATE OF tenant_id, passport_version_id, passport_id, created_at, snapshot_id, rule_package_version_id,
    compiler_build_id, payload_canonical, payload_hash, proof_canonical, proof_root_hash, receipt_hash, signature_alg
  ON passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('a passport version never changes');
CREATE TRIGGER passport_versions_status_forward BEFORE UPDATE OF status ON passport_versions
  FOR EACH ROW WHEN (NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN
    (('COMPILING', 'SIGNED'), ('SIGNED', 'ACTIVE'), ('ACTIVE', 'SUPERSEDED'),
     ('SIGNED', 'REVOKED'), ('ACTIVE', 'REVOKED'), ('SUPERSEDED', 'REVOKED')))
  EXECUTE FUNCTION refuse('a passport version''s status only moves forward');
CREATE TRIGGER passport_versions_signed_once
  BEFORE UPDATE OF signature, signing_key_id, receipt_canonical ON passport_versions
  FOR EACH ROW WHEN (OLD.status <> 'COMPILING' OR NEW.signature IS NULL
    OR (OLD.signing_key_id IS NOT NULL AND NEW.signing_key_id IS DISTINCT FROM OLD.signing_key_id))
  EXECUTE FUNCTION refuse('a passport version is signed once');
CREATE TRIGGER passport_versions_qr_once BEFORE UPDATE OF qr_png, qr_payload ON passport_versions
  FOR EACH ROW WHEN ((OLD.qr_png IS NOT NULL AND NEW.qr_png IS DISTINCT FROM OLD.qr_png)
    OR (OLD.qr_payload IS NOT NULL AND NEW.qr_payload IS DISTINCT FROM OLD.qr_payload))
  EXECUTE FUNCTION refuse('a passport version''s QR code is written once');
CREATE TRIGGER passport_versions_times_once
  BEFORE UPDATE OF activated_at, superseded_at, revoked_at ON passport_versions
  FOR EACH ROW WHEN ((OLD.activated_at IS NOT NULL AND NEW.activated_at IS DISTINCT FROM OLD.activated_at)
    OR (OLD.superseded_at IS NOT NULL AND NEW.superseded_at IS DISTINCT FROM OLD.superseded_at)
    OR (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at))
  EXECUTE FUNCTION refuse('a passport version''s time stamps are written once');
CREATE TRIGGER passport_versions_stay BEFORE DELETE ON passport_versions
  FOR EACH ROW WHEN (current_user <> 'bpc_system' OR OLD.status NOT IN ('SUPERSEDED', 'REVOKED'))
  EXECUTE FUNCTION refuse('a passport version is only ever removed by retention');
CREATE TRIGGER passport_versions_not_truncated BEFORE TRUNCATE ON passport_versions
  EXECUTE FUNCTION refuse('passport versions are never deleted');

-- Policies: a version's words never change, only whether it is in force.
CREATE TRIGGER policy_versions_frozen
  BEFORE UPDATE OF tenant_id, policy_version_id, policy_id, version, effect, target, priority, policy_json,
    policy_canonical, policy_hash, created_at
  ON policy_versions FOR EACH ROW EXECUTE FUNCTION refuse('a policy version never changes');
CREATE TRIGGER policy_versions_stay BEFORE DELETE ON policy_versions
  FOR EACH ROW EXECUTE FUNCTION refuse('a policy version is never deleted');
CREATE TRIGGER policy_versions_not_truncated BEFORE TRUNCATE ON policy_versions
  EXECUTE FUNCTION refuse('policy versions are never deleted');

-- A revoked API key stays revoked.
CREATE TRIGGER api_keys_revoked_for_good BEFORE UPDATE OF revoked_at ON api_keys
  FOR EACH ROW WHEN (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at)
  EXECUTE FUNCTION refuse('a revoked API key stays revoked');

-- Signing keys: a public key is what old signatures are checked against.
CREATE TRIGGER signing_keys_frozen BEFORE UPDATE OF key_id, public_key, created_at ON signing_keys
  FOR EACH ROW EXECUTE FUNCTION refuse('a signing key never changes');
CREATE TRIGGER signing_keys_retired BEFORE UPDATE OF status, retired_at ON signing_keys
  FOR EACH ROW WHEN (OLD.status = 'RETIRED') EXECUTE FUNCTION refuse('a retired signing key stays retired');
CREATE TRIGGER signing_keys_stay BEFORE DELETE ON signing_keys
  FOR EACH ROW EXECUTE FUNCTION refuse('a signing key is retired, never deleted');
CREATE TRIGGER signing_keys_not_truncated BEFORE TRUNCATE ON signing_keys
  EXECUTE FUNCTION refuse('signing keys are never deleted');
