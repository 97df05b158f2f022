-- Status lists. Every issued version has an index in a list of its tenant; a list says in two bits what became of it.
-- Indices are given in the transaction that issues the version, and states follow the version in its own transaction. A
-- worker signs lists and statements; the public reads only what is signed. Versions from before get their index from a worker.

CREATE TABLE status_lists (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  list_id      uuid NOT NULL DEFAULT gen_random_uuid(),
  created_at   timestamptz NOT NULL DEFAULT now(),
  -- What is served: the newest signed document. None until a worker has signed it.
  document     bytea,
  signed_at    timestamptz,
  valid_until  timestamptz,
  PRIMARY KEY (tenant_id, list_id),
  CHECK ((document IS NULL) = (signed_at IS NULL)),
  CHECK ((document IS NULL) = (valid_until IS NULL)),
  CHECK (valid_until <= signed_at + interval '24 hours')
);
CREATE INDEX status_lists_by_id ON status_lists (list_id);
CREATE INDEX status_lists_newest ON status_lists (tenant_id, created_at DESC);

-- The status outlives the version, which retention may remove. state: 0 in force, 1 superseded, 2 revoked, 3 ceased.
-- statement_due: a worker has to sign what became of the version.
CREATE TABLE status_entries (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  passport_version_id  uuid NOT NULL,
  list_id              uuid NOT NULL,
  list_index           int NOT NULL CHECK (list_index >= 0 AND list_index < 131072),
  state                int NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
  since                timestamptz NOT NULL DEFAULT now(),
  statement_due        boolean NOT NULL DEFAULT true,
  PRIMARY KEY (tenant_id, passport_version_id),
  UNIQUE (tenant_id, list_id, list_index),
  FOREIGN KEY (tenant_id, list_id) REFERENCES status_lists
);
CREATE INDEX status_entries_due ON status_entries (tenant_id) WHERE statement_due;
CREATE INDEX status_entries_not_in_force ON status_entries (tenant_id, list_id) WHERE state <> 0;

-- Signed statements: `issued` binds the version to its index; later ones say since when, why and what succeeds it.
CREATE TABLE status_statements (
  tenant_id            uuid NOT NULL REFERENCES tenants,
  passport_version_id  uuid NOT NULL,
  state                int NOT NULL CHECK (state BETWEEN 0 AND 3),
  document             bytea NOT NULL,
  signed_at            timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, passport_version_id, state),
  FOREIGN KEY (tenant_id, passport_version_id) REFERENCES status_entries
);
CREATE INDEX status_statements_of_version ON status_statements (passport_version_id, state);

ALTER TABLE status_lists ENABLE ROW LEVEL SECURITY;
ALTER TABLE status_lists FORCE ROW LEVEL SECURITY;
ALTER TABLE status_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE status_entries FORCE ROW LEVEL SECURITY;
ALTER TABLE status_statements ENABLE ROW LEVEL SECURITY;
ALTER TABLE status_statements FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON status_lists USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON status_entries USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON status_statements USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
-- Which tenants have something to sign; and what is signed is for everybody.
CREATE POLICY signed_for_all ON status_lists FOR SELECT TO bpc_system USING (true);
CREATE POLICY due_for_all ON status_entries FOR SELECT TO bpc_system USING (true);
CREATE POLICY signed_for_all ON status_statements FOR SELECT TO bpc_system USING (true);
GRANT SELECT, INSERT ON status_lists, status_entries TO bpc_app;
GRANT UPDATE (state, since, statement_due) ON status_entries TO bpc_app;
GRANT SELECT ON status_statements TO bpc_app;
GRANT INSERT ON status_statements TO bpc_system;
GRANT UPDATE (document, signed_at, valid_until) ON status_lists TO bpc_system;

CREATE TRIGGER status_lists_never_deleted BEFORE DELETE ON status_lists
  FOR EACH ROW EXECUTE FUNCTION refuse('a status list is never deleted');
CREATE TRIGGER status_lists_never_emptied BEFORE TRUNCATE ON status_lists
  EXECUTE FUNCTION refuse('status lists are never deleted');
CREATE TRIGGER status_entries_keep_their_index BEFORE UPDATE OF tenant_id, passport_version_id, list_id, list_index
  ON status_entries FOR EACH ROW EXECUTE FUNCTION refuse('a version keeps its index in the status list');
-- Nothing is taken back: superseded may become revoked or ceased, ceased may become revoked, revoked stays.
CREATE TRIGGER status_entries_forward BEFORE UPDATE OF state ON status_entries
  FOR EACH ROW WHEN (NEW.state <> OLD.state AND (NEW.state = 0 OR OLD.state = 2 OR OLD.state = 3 AND NEW.state = 1))
  EXECUTE FUNCTION refuse('the status of a version is not taken back');
CREATE TRIGGER status_entries_never_deleted BEFORE DELETE ON status_entries
  FOR EACH ROW EXECUTE FUNCTION refuse('a version keeps its index in the status list');
CREATE TRIGGER status_entries_never_emptied BEFORE TRUNCATE ON status_entries
  EXECUTE FUNCTION refuse('versions keep their indices in status lists');
CREATE TRIGGER status_statements_never_change BEFORE UPDATE OR DELETE ON status_statements
  FOR EACH ROW EXECUTE FUNCTION refuse('a signed statement is never changed or deleted');
CREATE TRIGGER status_statements_not_truncated BEFORE TRUNCATE ON status_statements
  EXECUTE FUNCTION refuse('signed statements are never deleted');

-- Give a version a random index in the newest list of its tenant. Indices come from the server's strong generator. After
-- sixteen that are taken the list is more than half full, and the version begins another.
CREATE FUNCTION assign_status_index(tenant uuid, version uuid, current_state int, moment timestamptz) RETURNS void
  LANGUAGE plpgsql AS $$
DECLARE
  chosen_list uuid;
  noise bytea;
BEGIN
  IF EXISTS (SELECT FROM public.status_entries e WHERE e.tenant_id = tenant AND e.passport_version_id = version) THEN
    RETURN;
  END IF;
  SELECT l.list_id INTO chosen_list FROM public.status_lists l
   WHERE l.tenant_id = tenant ORDER BY l.created_at DESC LIMIT 1;
  IF chosen_list IS NULL THEN
    -- Only for the first list: others that issue wait here, and then find it.
    PERFORM pg_advisory_xact_lock(hashtextextended('first status list of ' || tenant, 0));
    SELECT l.list_id INTO chosen_list FROM public.status_lists l
     WHERE l.tenant_id = tenant ORDER BY l.created_at DESC LIMIT 1;
  END IF;
  FOR attempt IN 1..16 LOOP
    EXIT WHEN chosen_list IS NULL;
    noise := uuid_send(gen_random_uuid());
    INSERT INTO public.status_entries (tenant_id, passport_version_id, list_id, list_index, state, since)
    VALUES (tenant, version, chosen_list,
            get_byte(noise, 0) * 512 + get_byte(noise, 1) * 2 + get_byte(noise, 2) / 128, current_state, moment)
    ON CONFLICT (tenant_id, list_id, list_index) DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
  INSERT INTO public.status_lists (tenant_id, created_at) VALUES (tenant, clock_timestamp())
  RETURNING list_id INTO chosen_list;
  noise := uuid_send(gen_random_uuid());
  INSERT INTO public.status_entries (tenant_id, passport_version_id, list_id, list_index, state, since)
  VALUES (tenant, version, chosen_list,
          get_byte(noise, 0) * 512 + get_byte(noise, 1) * 2 + get_byte(noise, 2) / 128, current_state, moment);
END $$;
REVOKE ALL ON FUNCTION assign_status_index(uuid, uuid, int, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assign_status_index(uuid, uuid, int, timestamptz) TO bpc_app, bpc_system;

CREATE FUNCTION follow_version_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  CASE NEW.status
    WHEN 'SIGNED' THEN
      PERFORM public.assign_status_index(NEW.tenant_id, NEW.passport_version_id, 0::int, now());
    WHEN 'SUPERSEDED' THEN
      UPDATE public.status_entries SET state = 1, since = NEW.superseded_at, statement_due = true
       WHERE tenant_id = NEW.tenant_id AND passport_version_id = NEW.passport_version_id;
    WHEN 'REVOKED' THEN
      UPDATE public.status_entries SET state = 2, since = NEW.revoked_at, statement_due = true
       WHERE tenant_id = NEW.tenant_id AND passport_version_id = NEW.passport_version_id;
    ELSE NULL;
  END CASE;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION follow_version_status() FROM PUBLIC;
CREATE TRIGGER passport_versions_have_a_status AFTER UPDATE OF status ON passport_versions
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION follow_version_status();
