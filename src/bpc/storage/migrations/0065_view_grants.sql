-- Who outside of a tenant may see more of its passports than everybody, and who asked for it.

-- What a person asked for on a public page. `said` is what they wrote, canonical JSON: it is personal, so it can be
-- removed once the request is decided; its hash stays.
CREATE TABLE view_requests (
  tenant_id        uuid NOT NULL REFERENCES tenants,
  view_request_id  uuid NOT NULL,
  passport_id      uuid NOT NULL,
  battery_id       uuid,
  audience         text NOT NULL CHECK (audience IN ('interest', 'authority')),
  said             bytea CHECK (octet_length(said) <= 16384),
  said_sha256      hash256 NOT NULL,
  requested_at     timestamptz NOT NULL,
  status           text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'APPROVED', 'REJECTED')),
  decided_by       uuid,
  decided_at       timestamptz,
  reason           text CHECK (reason <> ''),
  PRIMARY KEY (tenant_id, view_request_id),
  FOREIGN KEY (tenant_id, passport_id) REFERENCES passports,
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  FOREIGN KEY (tenant_id, decided_by) REFERENCES actors,
  CONSTRAINT view_requests_decided CHECK ((status = 'PENDING') = (decided_at IS NULL)),
  CONSTRAINT view_requests_kept_until_decided CHECK (said IS NOT NULL OR status <> 'PENDING')
);
CREATE INDEX view_requests_by_time ON view_requests (tenant_id, requested_at, view_request_id);
CREATE INDEX view_requests_pending ON view_requests (tenant_id, requested_at) WHERE status = 'PENDING';

-- A grant to see the view of an audience. A delegate has the grant that it was made from as its parent, and counts as
-- long as that counts. Of the code, only a hash with a pepper is stored.
CREATE TABLE view_grants (
  tenant_id          uuid NOT NULL REFERENCES tenants,
  view_grant_id      uuid NOT NULL,
  grantee            text NOT NULL CHECK (grantee <> ''),
  audience           text NOT NULL CHECK (audience IN ('interest', 'authority')),
  scope              text NOT NULL CHECK (scope IN ('ITEM', 'MODEL', 'ALL')),
  passport_id        uuid,
  battery_id         uuid,
  terms              text CHECK (terms <> ''),
  may_delegate       boolean NOT NULL DEFAULT false,
  parent_id          uuid,
  view_request_id    uuid,
  code_prefix        text NOT NULL,
  code_hash          hash256 NOT NULL,
  pepper_id          text NOT NULL,
  created_at         timestamptz NOT NULL,
  created_by         uuid,
  expires_at         timestamptz NOT NULL,
  terms_accepted_at  timestamptz,
  revoked_at         timestamptz,
  revoked_by         uuid,
  reason             text CHECK (reason <> ''),
  PRIMARY KEY (tenant_id, view_grant_id),
  FOREIGN KEY (tenant_id, passport_id) REFERENCES passports,
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  FOREIGN KEY (tenant_id, parent_id) REFERENCES view_grants (tenant_id, view_grant_id),
  FOREIGN KEY (tenant_id, view_request_id) REFERENCES view_requests,
  FOREIGN KEY (tenant_id, created_by) REFERENCES actors,
  FOREIGN KEY (tenant_id, revoked_by) REFERENCES actors,
  CONSTRAINT view_grants_scope CHECK ((scope = 'MODEL') = (passport_id IS NOT NULL)
                                      AND (scope = 'ITEM') = (battery_id IS NOT NULL)),
  CONSTRAINT view_grants_ends CHECK (expires_at > created_at),
  CONSTRAINT view_grants_one_level CHECK (parent_id IS NULL OR NOT may_delegate),
  CONSTRAINT view_grants_one_for_a_request UNIQUE (tenant_id, view_request_id)
);
CREATE INDEX view_grants_by_time ON view_grants (tenant_id, created_at, view_grant_id);
CREATE INDEX view_grants_by_prefix ON view_grants (code_prefix);
CREATE INDEX view_grants_of_parent ON view_grants (tenant_id, parent_id) WHERE parent_id IS NOT NULL;

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['view_requests', 'view_grants'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant_id = (SELECT current_tenant())) '
                   'WITH CHECK (tenant_id = (SELECT current_tenant()))', tenant_table);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO bpc_app', tenant_table);
    EXECUTE format('CREATE TRIGGER %I BEFORE DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse(%L)',
                   tenant_table || '_never_deleted', tenant_table, 'a record of who may see what is never deleted');
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse(%L)',
                   tenant_table || '_not_truncated', tenant_table, 'records of who may see what are never deleted');
  END LOOP;
END $$;
GRANT UPDATE (said, status, decided_by, decided_at, reason) ON view_requests TO bpc_app;
GRANT UPDATE (code_hash, pepper_id, terms_accepted_at, revoked_at, revoked_by, reason) ON view_grants TO bpc_app;

CREATE TRIGGER view_requests_final BEFORE UPDATE ON view_requests
  FOR EACH ROW WHEN (
    (OLD.tenant_id, OLD.view_request_id, OLD.passport_id, OLD.battery_id, OLD.audience, OLD.said_sha256,
     OLD.requested_at)
    IS DISTINCT FROM
    (NEW.tenant_id, NEW.view_request_id, NEW.passport_id, NEW.battery_id, NEW.audience, NEW.said_sha256,
     NEW.requested_at)
    OR NEW.said IS NOT NULL AND NEW.said IS DISTINCT FROM OLD.said
    OR OLD.status <> 'PENDING'
       AND (OLD.status, OLD.decided_by, OLD.decided_at, OLD.reason)
           IS DISTINCT FROM (NEW.status, NEW.decided_by, NEW.decided_at, NEW.reason))
  EXECUTE FUNCTION refuse('what was asked for never changes, and a decision is final');
CREATE TRIGGER view_grants_final BEFORE UPDATE ON view_grants
  FOR EACH ROW WHEN (
    OLD.revoked_at IS NOT NULL
    OR (OLD.tenant_id, OLD.view_grant_id, OLD.grantee, OLD.audience, OLD.scope, OLD.passport_id, OLD.battery_id,
        OLD.terms, OLD.may_delegate, OLD.parent_id, OLD.view_request_id, OLD.code_prefix, OLD.created_at,
        OLD.created_by, OLD.expires_at)
       IS DISTINCT FROM
       (NEW.tenant_id, NEW.view_grant_id, NEW.grantee, NEW.audience, NEW.scope, NEW.passport_id, NEW.battery_id,
        NEW.terms, NEW.may_delegate, NEW.parent_id, NEW.view_request_id, NEW.code_prefix, NEW.created_at,
        NEW.created_by, NEW.expires_at)
    OR OLD.terms_accepted_at IS NOT NULL AND OLD.terms_accepted_at IS DISTINCT FROM NEW.terms_accepted_at
    OR NEW.code_hash IS DISTINCT FROM OLD.code_hash AND NEW.pepper_id = OLD.pepper_id)
  EXECUTE FUNCTION refuse('a grant never becomes another one, and its end is final');

-- Whoever has a code has neither a tenant nor a key. One function finds the grant; whether the code is right is compared
-- outside, and everything else is read as that tenant.
CREATE POLICY code_lookup ON view_grants FOR SELECT TO bpc_owner USING (true);
CREATE FUNCTION find_view_grant(prefix text)
RETURNS TABLE (tenant_id uuid, view_grant_id uuid, code_hash bytea, is_active boolean, ends_at timestamptz,
               is_revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT g.tenant_id, g.view_grant_id, g.code_hash::bytea, t.is_active, least(g.expires_at, p.expires_at),
         g.revoked_at IS NOT NULL OR p.revoked_at IS NOT NULL
    FROM public.view_grants g
    JOIN public.tenants t ON t.tenant_id = g.tenant_id
    LEFT JOIN public.view_grants p ON p.tenant_id = g.tenant_id AND p.view_grant_id = g.parent_id
   WHERE g.code_prefix = prefix
   ORDER BY g.created_at LIMIT 1
$$;
REVOKE ALL ON FUNCTION find_view_grant(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_view_grant(text) TO bpc_app;

-- Codes hang on a pepper like API keys: whoever replaces the pepper sees both.
CREATE OR REPLACE FUNCTION api_keys_by_pepper()
RETURNS TABLE (slug text, pepper_id text, keys bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT t.slug, k.pepper_id, count(*)
    FROM (SELECT tenant_id, pepper_id, expires_at, revoked_at FROM public.api_keys
          UNION ALL
          SELECT tenant_id, pepper_id, expires_at, revoked_at FROM public.view_grants) AS k
    JOIN public.tenants t ON t.tenant_id = k.tenant_id
   WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
   GROUP BY t.slug, k.pepper_id
   ORDER BY t.slug, k.pepper_id
$$;
