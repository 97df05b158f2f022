-- A delivery ends with its job. A job that fails tells its handler, which writes that down; one that is cancelled tells
-- nobody: it may never have begun, its worker may be dead, and it may be ended by a worker that knows no tenant. So the
-- database does it, whoever ended the job and however.
--
-- Who sends a delivery locks it first and its job's lease last; here it is the other way round, because whoever ends a
-- job begins with its lease. So it waits less long than PostgreSQL does until it looks for deadlocks, and than anybody
-- who ends jobs has patience: a worker that is frozen in between delays the end of this job and of no other.

CREATE FUNCTION end_cancelled_delivery() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public SET lock_timeout = '500ms' AS $$
DECLARE
  v_bound text := coalesce(current_setting('app.tenant_id', true), '');
  v_says  text := NEW.last_error ->> 'message';
BEGIN
  PERFORM set_config('app.tenant_id', NEW.tenant_id::text, true);
  UPDATE public.webhook_deliveries
     SET status = 'FAILED', last_error = jsonb_build_object(
           'code', 'JOB_CANCELLED', 'retryable', false, 'message',
           CASE WHEN NEW.last_error ->> 'code' = 'JOB_CANCELLED' THEN v_says ELSE 'its job was cancelled' END)
   WHERE tenant_id = NEW.tenant_id AND webhook_delivery_id = (NEW.payload ->> 'webhook_delivery_id')::uuid
     AND status = 'PENDING';
  PERFORM set_config('app.tenant_id', v_bound, true);
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION end_cancelled_delivery() FROM PUBLIC;

CREATE TRIGGER job_ends_delivery AFTER UPDATE OF status ON jobs.job
  FOR EACH ROW WHEN (NEW.status = 'CANCELLED' AND NEW.type = 'DELIVER_WEBHOOK' AND OLD.status <> 'CANCELLED')
  EXECUTE FUNCTION end_cancelled_delivery();
