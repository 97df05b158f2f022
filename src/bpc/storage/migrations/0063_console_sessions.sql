-- Sessions of the console: who is signed in with a browser, since when and how. The cookie itself is never stored,
-- only its hash. A sign-in link is used once: the hash of its number belongs to one session.

CREATE TABLE console_sessions (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  session_id    uuid NOT NULL,
  actor_id      uuid NOT NULL,
  secret_hash   bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  sign_in       text NOT NULL CHECK (sign_in IN ('LINK', 'OIDC')),
  link_hash     bytea CHECK (octet_length(link_hash) = 32),
  device        text NOT NULL CHECK (length(device) BETWEEN 1 AND 100),
  created_at    timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL,
  ended_at      timestamptz,
  last_used_at  timestamptz,
  PRIMARY KEY (tenant_id, session_id),
  FOREIGN KEY (tenant_id, actor_id) REFERENCES actors,
  CONSTRAINT console_sessions_link_key UNIQUE (tenant_id, link_hash),
  CONSTRAINT console_sessions_link CHECK ((sign_in = 'LINK') = (link_hash IS NOT NULL))
);
CREATE INDEX console_sessions_of_actor ON console_sessions (tenant_id, actor_id, created_at);
CREATE INDEX console_sessions_by_time ON console_sessions (tenant_id, created_at, session_id);

ALTER TABLE console_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE console_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON console_sessions USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY session_lookup ON console_sessions FOR SELECT TO bpc_owner USING (true);
GRANT SELECT, INSERT, UPDATE (ended_at, last_used_at) ON console_sessions TO bpc_app;
CREATE TRIGGER console_sessions_final BEFORE UPDATE ON console_sessions
  FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION refuse('a session that has ended never changes');
CREATE TRIGGER console_sessions_never_deleted BEFORE DELETE ON console_sessions
  FOR EACH ROW EXECUTE FUNCTION refuse('a session is never deleted');
CREATE TRIGGER console_sessions_not_truncated BEFORE TRUNCATE ON console_sessions
  EXECUTE FUNCTION refuse('sessions are never deleted');

-- The one query before the tenant is known, as find_caller is for API keys.
CREATE FUNCTION find_session(the_tenant uuid, the_session uuid)
  RETURNS TABLE (tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea,
                 expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz, is_active boolean,
                 roles text[], permissions text[], policies text,
                 created_at timestamptz, actor_name text, tenant_name text, tenant_slug text)
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
         s.created_at, a.display_name, t.name, t.slug::text
    FROM console_sessions s
    JOIN actors a ON a.tenant_id = s.tenant_id AND a.actor_id = s.actor_id
    JOIN tenants t ON t.tenant_id = s.tenant_id
   WHERE s.tenant_id = the_tenant AND s.session_id = the_session;
END $$;
REVOKE ALL ON FUNCTION find_session FROM public;
GRANT EXECUTE ON FUNCTION find_session TO bpc_app;
