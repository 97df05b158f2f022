-- What people see: status, attempts and times as they are now. Without the payload, which may be large or private.
CREATE OR REPLACE VIEW jobs.job_status WITH (security_invoker = true) AS
SELECT j.tenant_id, j.job_id, j.type,
       CASE WHEN l.job_id IS NOT NULL THEN 'RUNNING' ELSE j.status END AS status,
       j.priority, coalesce(l.attempt, j.attempts) - j.uncounted AS attempts, j.max_attempts, j.idempotency_key,
       j.limit_key, j.batch_id, j.progress, j.last_error, j.created_at, j.scheduled_at,
       coalesce(l.started_at, j.started_at) AS started_at, j.finished_at, l.owner AS lease_owner,
       l.lease_until AS lease_expires_at,
       coalesce(l.cancel_requested, false) AS cancel_requested, j.correlation_id, j.actor,
       j.service_id, j.subject_kind, j.subject_id, j.subject_group
  FROM jobs.job j
  LEFT JOIN jobs.job_lease l ON l.tenant_id = j.tenant_id AND l.job_id = j.job_id;
