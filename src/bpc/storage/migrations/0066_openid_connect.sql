-- contract: nobody needs constraint console_sessions.console_sessions_link since 0.0.1
-- People who sign in with a provider (OpenID Connect). Of a person only the hash of issuer and subject is kept, and who
-- they are here; never a mail address.

CREATE TABLE actor_identities (
  tenant_id      uuid NOT NULL REFERENCES tenants,
  identity_hash  bytea NOT NULL CHECK (octet_length(identity_hash) = 32),
  actor_id       uuid NOT NULL,
  issuer         text NOT NULL CHECK (issuer <> ''),
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, identity_hash),
  FOREIGN KEY (tenant_id, actor_id) REFERENCES actors,
  CONSTRAINT actor_identities_actor_key UNIQUE (tenant_id, actor_id)
);
ALTER TABLE actor_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE actor_identities FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON actor_identities USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON actor_identities TO bpc_app;
CREATE TRIGGER actor_identities_never_change BEFORE UPDATE OR DELETE ON actor_identities
  FOR EACH ROW EXECUTE FUNCTION refuse('who somebody is never changes');
CREATE TRIGGER actor_identities_not_truncated BEFORE TRUNCATE ON actor_identities
  EXECUTE FUNCTION refuse('who somebody is never changes');

-- Which provider a session is from, when it last said which groups its person is in, who asks it now, and the tokens to
-- ask it with, encrypted. `link_hash` of such a session is the hash of the answer that began it: it begins no other.
ALTER TABLE console_sessions
  ADD COLUMN issuer text,
  ADD COLUMN roles_read_at timestamptz,
  ADD COLUMN reading_since timestamptz,
  ADD COLUMN provider_tokens text,
  DROP CONSTRAINT console_sessions_link,
  ADD CONSTRAINT console_sessions_link CHECK (sign_in <> 'LINK' OR link_hash IS NOT NULL);
GRANT UPDATE (roles_read_at, reading_since, provider_tokens) ON console_sessions TO bpc_app;

-- The same with the provider. An older release goes on with find_session.
CREATE FUNCTION find_console_session(the_tenant uuid, the_session uuid)
  RETURNS TABLE (tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea,
                 expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz, is_active boolean,
                 roles text[], permissions text[], policies text,
                 created_at timestamptz, actor_name text, tenant_name text, tenant_slug text,
                 issuer text, roles_read_at timestamptz)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$  -- plpgsql keeps its plan
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT s.tenant_id, s.session_id, s.actor_id, a.type::text, s.secret_hash::bytea, s.expires_at, s.ended_at,
         s.last_used_at, a.is_active AND t.is_active,
         ARRAY(SELECT r.name FROM actor_roles ar
                 JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                WHERE ar.tenant_id = s.tenant_id AND ar.actor_id = s.actor_id ORDER BY r.name),
         ARRAY(SELECT DISTINCT rp.permission FROM actor_roles ar
                 JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
                WHERE ar.tenant_id = s.tenant_id AND ar.actor_id = s.actor_id),
         (SELECT json_agg(json_build_object(
                   'policy_id', v.policy_id, 'policy_version_id', v.policy_version_id, 'version', v.version,
                   'effect', v.effect, 'target', v.target, 'priority', v.priority, 'policy_json', v.policy_json))::text
            FROM policy_versions v WHERE v.tenant_id = s.tenant_id AND v.is_active),
         s.created_at, a.display_name, t.name, t.slug::text, s.issuer, s.roles_read_at
    FROM console_sessions s
    JOIN actors a ON a.tenant_id = s.tenant_id AND a.actor_id = s.actor_id
    JOIN tenants t ON t.tenant_id = s.tenant_id
   WHERE s.tenant_id = the_tenant AND s.session_id = the_session;
END $$;
REVOKE ALL ON FUNCTION find_console_session FROM public;
GRANT EXECUTE ON FUNCTION find_console_session TO bpc_app;
