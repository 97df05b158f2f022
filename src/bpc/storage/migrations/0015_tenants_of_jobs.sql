-- Jobs of one submission belong to one tenant: ask once whether it exists, not once for each of thousands.
CREATE OR REPLACE FUNCTION jobs.refuse_unknown_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT tenant_id FROM added) a
              WHERE NOT EXISTS (SELECT FROM public.tenants t WHERE t.tenant_id = a.tenant_id)) THEN
    RAISE EXCEPTION 'a job needs a tenant that exists'
      USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'job_tenant_id_fkey';
  END IF;
  RETURN NULL;
END $$;
