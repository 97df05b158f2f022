-- The job engine's tables, made by its own migrations, under the same rules as ours: jobs belong to tenants.
-- Handlers and requests act as `bpc_app` for one tenant; workers go through everybody's jobs as `bpc_system`, and see
-- nothing of a tenant but its jobs. The engine's functions run with the caller's rights, so these are all the rights.

-- A foreign key asks once per row and costs a third of a bulk submission. Tenants are never deleted, so asking once per
-- statement is as good; whoever submits is told the same.
CREATE FUNCTION jobs.refuse_unknown_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM added a
              WHERE NOT EXISTS (SELECT FROM public.tenants t WHERE t.tenant_id = a.tenant_id)) THEN
    RAISE EXCEPTION 'a job needs a tenant that exists'
      USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'job_tenant_id_fkey';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER job_tenant_exists AFTER INSERT ON jobs.job REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION jobs.refuse_unknown_tenant();
ALTER TABLE jobs.batch ADD FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id);
ALTER TABLE jobs.schedule ADD FOREIGN KEY (tenant_id) REFERENCES tenants (tenant_id);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'job', 'job_ready', 'job_later', 'job_lease', 'job_slot', 'job_dependency', 'batch', 'schedule']
  LOOP
    EXECUTE format('ALTER TABLE jobs.%I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE jobs.%I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY own_tenant ON jobs.%I USING (tenant_id = (SELECT current_tenant())) '
                   'WITH CHECK (tenant_id = (SELECT current_tenant()))', tenant_table);
    EXECUTE format('CREATE POLICY all_jobs ON jobs.%I TO bpc_system USING (true) WITH CHECK (true)', tenant_table);
    EXECUTE format('GRANT SELECT ON jobs.%I TO bpc_app', tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON jobs.%I TO bpc_system', tenant_table);
  END LOOP;
END $$;

GRANT USAGE ON SCHEMA jobs TO bpc_app;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA jobs FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA jobs TO bpc_app;
GRANT SELECT ON jobs.job_status TO bpc_app;

-- Submitting, ending, cancelling and redriving, one tenant at a time. Only a worker takes a lease.
GRANT INSERT ON jobs.job, jobs.job_ready, jobs.job_later, jobs.job_slot, jobs.job_dependency, jobs.batch, jobs.schedule
  TO bpc_app;
GRANT DELETE ON jobs.job_ready, jobs.job_later, jobs.job_lease, jobs.job_slot, jobs.schedule TO bpc_app;
GRANT UPDATE (status, attempts, uncounted, awaited, result, last_error, checkpoint, step, progress, scheduled_at,
              started_at, finished_at, failed_at) ON jobs.job TO bpc_app;
GRANT UPDATE (cancel_requested, cancel_reason) ON jobs.job_lease TO bpc_app;
GRANT UPDATE (job_id, closing) ON jobs.job_slot TO bpc_app;
GRANT UPDATE (met) ON jobs.job_dependency TO bpc_app;
GRANT UPDATE (cron, time_zone, type, payload, priority, max_attempts, keep_seconds, catch_up, paused, last_at, next_at)
  ON jobs.schedule TO bpc_app;

-- Which workers live, and what they can do, is no tenant's secret: it tells why a job waits.
GRANT SELECT ON jobs.job_worker TO bpc_app;
GRANT INSERT, UPDATE, DELETE ON jobs.job_worker TO bpc_system;
