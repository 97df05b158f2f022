-- Idempotency keys belong to the actor: two actors that use the same key do not learn of each other.
--
-- A row of the previous version has the nil UUID as its actor; the hash of its request contains the actor.
-- contract: nobody needs constraint idempotency_keys.idempotency_keys_pkey since 0.0.1

ALTER TABLE idempotency_keys ADD COLUMN actor_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey;
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key, actor_id);

-- The same lock as `answered`, which the previous version calls: both may serve at the same time.
CREATE FUNCTION answered_by(p_tenant uuid, p_actor uuid, p_key text, p_hash bytea)
  RETURNS TABLE (request_hash bytea, response_status int, response_headers text, response_body bytea)
  LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('idempotency/' || p_tenant || '/' || p_key, 0));
  RETURN QUERY
  SELECT i.request_hash::bytea, i.response_status, i.response_headers::text, i.response_body
    FROM public.idempotency_keys i
   WHERE i.tenant_id = p_tenant AND i.key = p_key
     AND (i.actor_id = p_actor
          OR (i.actor_id = '00000000-0000-0000-0000-000000000000' AND i.request_hash::bytea = p_hash))
   ORDER BY i.actor_id = p_actor DESC
   LIMIT 1;
END $$;
REVOKE ALL ON FUNCTION answered_by(uuid, uuid, text, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION answered_by(uuid, uuid, text, bytea) TO bpc_app;
