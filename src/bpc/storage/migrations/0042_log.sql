-- The transparency log. An act that the log shows puts a row into log_outbox, in its own transaction. The sequencer gives
-- it a place: in log_entries what everybody sees, in log_openings what only its tenant may see. The files of the log are
-- made from log_entries alone, so they can be made again.

CREATE TABLE log_outbox (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  outbox_id          uuid NOT NULL DEFAULT gen_random_uuid(),
  event_type         text NOT NULL CHECK (event_type <> ''),
  aggregate_type     text NOT NULL CHECK (aggregate_type <> ''),
  aggregate_id       uuid NOT NULL,
  aggregate_version  bigint NOT NULL CHECK (aggregate_version > 0),
  occurred_at        timestamptz NOT NULL,
  event_hash         bytea NOT NULL CHECK (octet_length(event_hash) = 32),
  payload_canonical  bytea NOT NULL,
  -- 244 random bits of the server's strong generator. A salt is made here, so the entry is the same whoever writes it.
  salt               bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
                     CHECK (octet_length(salt) = 32),
  PRIMARY KEY (tenant_id, outbox_id)
);
CREATE INDEX log_outbox_by_time ON log_outbox (occurred_at, outbox_id);

-- The log itself. It says nothing of tenants.
CREATE TABLE log_entries (
  log_index  bigint PRIMARY KEY CHECK (log_index >= 0),
  entry      bytea NOT NULL
);

-- What the log signed. A size has one root for ever; has_quorum says that enough witnesses cosigned the note.
CREATE TABLE log_checkpoints (
  size        bigint PRIMARY KEY CHECK (size >= 0),
  root        bytea NOT NULL CHECK (octet_length(root) = 32),
  note        bytea NOT NULL,
  has_quorum  boolean NOT NULL,
  signed_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX log_checkpoints_with_quorum ON log_checkpoints (size) WHERE has_quorum;

-- Which log this database writes. listed_at: when versions signed before the log were put into the outbox.
-- restored_at: the database was restored from a backup, and the log does not say so yet.
CREATE TABLE log_state (
  only_row      boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  verifier_key  text NOT NULL,
  began_at      timestamptz NOT NULL DEFAULT now(),
  listed_at     timestamptz,
  restored_at   timestamptz
);

-- What opens the sealed entries of a tenant.
CREATE TABLE log_openings (
  tenant_id       uuid NOT NULL REFERENCES tenants,
  log_index       bigint NOT NULL CHECK (log_index >= 0),
  kind            text NOT NULL CHECK (kind <> ''),
  aggregate_type  text NOT NULL,
  aggregate_id    uuid NOT NULL,
  statement       bytea NOT NULL,
  salt            bytea NOT NULL CHECK (octet_length(salt) = 32),
  PRIMARY KEY (tenant_id, log_index)
);
CREATE INDEX log_openings_by_index ON log_openings (log_index);
CREATE INDEX log_openings_of_aggregate ON log_openings (tenant_id, aggregate_id, log_index);

-- The proof of a passport version: the hashes from its entry to the first checkpoint with a quorum.
CREATE TABLE log_proofs (
  tenant_id  uuid NOT NULL REFERENCES tenants,
  log_index  bigint NOT NULL,
  size       bigint NOT NULL CHECK (size > 0),
  hashes     bytea NOT NULL CHECK (octet_length(hashes) % 32 = 0),
  PRIMARY KEY (tenant_id, log_index),
  FOREIGN KEY (tenant_id, log_index) REFERENCES log_openings
);

ALTER TABLE log_outbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_outbox FORCE ROW LEVEL SECURITY;
ALTER TABLE log_openings ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_openings FORCE ROW LEVEL SECURITY;
ALTER TABLE log_proofs ENABLE ROW LEVEL SECURITY;
ALTER TABLE log_proofs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_outbox USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON log_openings USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON log_proofs USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
-- The sequencer takes the rows of all tenants in one order.
CREATE POLICY sequencer ON log_outbox TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY sequencer ON log_openings TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY sequencer ON log_proofs TO bpc_system USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON log_outbox TO bpc_app;
GRANT DELETE ON log_outbox TO bpc_system;
GRANT SELECT ON log_openings, log_proofs, log_entries, log_checkpoints, log_state TO bpc_app;
GRANT INSERT ON log_openings, log_proofs, log_entries, log_checkpoints, log_state TO bpc_system;
GRANT UPDATE (note, has_quorum) ON log_checkpoints TO bpc_system;
GRANT UPDATE (listed_at, restored_at) ON log_state TO bpc_system;

CREATE TRIGGER log_entries_never_change BEFORE UPDATE OR DELETE ON log_entries
  FOR EACH ROW EXECUTE FUNCTION refuse('an entry of the log is never changed or deleted');
CREATE TRIGGER log_entries_not_truncated BEFORE TRUNCATE ON log_entries
  EXECUTE FUNCTION refuse('entries of the log are never deleted');
CREATE TRIGGER log_openings_never_change BEFORE UPDATE OR DELETE ON log_openings
  FOR EACH ROW EXECUTE FUNCTION refuse('the opening of an entry is never changed or deleted');
CREATE TRIGGER log_openings_not_truncated BEFORE TRUNCATE ON log_openings
  EXECUTE FUNCTION refuse('openings of entries are never deleted');
CREATE TRIGGER log_checkpoints_stay BEFORE UPDATE ON log_checkpoints
  FOR EACH ROW WHEN (OLD.has_quorum OR NOT NEW.has_quorum OR OLD.root <> NEW.root OR OLD.size <> NEW.size)
  EXECUTE FUNCTION refuse('a checkpoint of the log only gains its quorum');
CREATE TRIGGER log_checkpoints_never_deleted BEFORE DELETE ON log_checkpoints
  FOR EACH ROW EXECUTE FUNCTION refuse('a checkpoint of the log is never deleted');
CREATE TRIGGER log_checkpoints_not_truncated BEFORE TRUNCATE ON log_checkpoints
  EXECUTE FUNCTION refuse('checkpoints of the log are never deleted');
CREATE TRIGGER log_proofs_never_change BEFORE UPDATE OR DELETE ON log_proofs
  FOR EACH ROW EXECUTE FUNCTION refuse('a log proof is never changed or deleted');
CREATE TRIGGER log_proofs_not_truncated BEFORE TRUNCATE ON log_proofs
  EXECUTE FUNCTION refuse('log proofs are never deleted');

CREATE FUNCTION put_into_log_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                                 event_hash, payload_canonical)
  VALUES (NEW.tenant_id, NEW.event_type, NEW.aggregate_type, NEW.aggregate_id, NEW.aggregate_version, NEW.occurred_at,
          NEW.event_hash, NEW.payload_canonical);
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION put_into_log_outbox() FROM PUBLIC;

-- Keys are the installation's: each is announced in several tenants, and logged once.
CREATE TRIGGER events_join_the_log AFTER INSERT ON events
  FOR EACH ROW WHEN (NEW.event_type IN (
      'PASSPORT_SIGNED', 'PASSPORT_ACTIVATED', 'PASSPORT_SUPERSEDED', 'PASSPORT_REVOKED', 'PASSPORT_WAIVED',
      'RULES_PUBLISHED', 'RetentionApplied')
    OR NEW.event_type IN ('SIGNING_KEY_CREATED', 'SIGNING_KEY_CHANGED')
       AND NEW.tenant_id = '00000000-0000-4000-8000-000000000001')
  EXECUTE FUNCTION put_into_log_outbox();
