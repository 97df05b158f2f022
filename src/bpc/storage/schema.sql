-- What the migrations make of an empty database. Made by `make cases`, compared by a test, loaded by nobody.

CREATE TYPE access_decision AS ENUM (
    'ALLOW',
    'DENY'
);
CREATE TYPE actor_type AS ENUM (
    'USER',
    'API_CLIENT',
    'SERVICE'
);
CREATE TYPE document_kind AS ENUM (
    'BOM',
    'PCF',
    'DUE_DILIGENCE',
    'OTHER'
);
CREATE TYPE document_status AS ENUM (
    'UPLOADED',
    'PARSED',
    'VALIDATED',
    'REJECTED'
);
CREATE TYPE passport_status AS ENUM (
    'COMPILING',
    'SIGNED',
    'ACTIVE',
    'SUPERSEDED',
    'REVOKED'
);
CREATE TYPE rule_pkg_status AS ENUM (
    'DRAFT',
    'VALIDATED',
    'PUBLISHED',
    'DEPRECATED',
    'RETIRED'
);
CREATE TYPE signing_key_status AS ENUM (
    'ACTIVE',
    'RETIRED',
    'COMPROMISED'
);
CREATE TYPE snapshot_status AS ENUM (
    'BUILDING',
    'READY',
    'SEALED'
);

CREATE DOMAIN hash256 AS bytea
	CONSTRAINT hash256_check CHECK ((octet_length(VALUE) = 32));

CREATE FUNCTION jobs.because_of(p_needed uuid, p_status text) RETURNS json
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT json_build_object('code', 'JOB_CANCELLED', 'because_of', p_needed,
                           'message', format('job %s, which it depends on, ended %s', p_needed, p_status))
$$;
CREATE FUNCTION jobs.block(p_tenant uuid, p_jobs uuid[], p_needs uuid[], p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_needed record;
  v_found  int := 0;
  v_open   boolean := false;
BEGIN
  FOR v_needed IN
    -- Locked in order, as everybody else does; the end of a needed job waits for us and then sees `awaited`.
    SELECT job_id, status FROM jobs.job WHERE tenant_id = p_tenant AND job_id = ANY (p_needs) ORDER BY job_id FOR UPDATE
  LOOP
    v_found := v_found + 1;
    IF v_needed.status IN ('FAILED', 'DEAD_LETTER', 'CANCELLED') THEN
      INSERT INTO jobs.job_dependency (tenant_id, job_id, needs_id)
      SELECT p_tenant, id, v_needed.job_id FROM unnest(p_jobs) AS id;
      UPDATE jobs.job SET awaited = true WHERE tenant_id = p_tenant AND job_id = v_needed.job_id AND NOT awaited;
      UPDATE jobs.job
         SET status = 'CANCELLED', finished_at = p_now,
             last_error = jobs.because_of(v_needed.job_id, v_needed.status)
       WHERE tenant_id = p_tenant AND job_id = ANY (p_jobs) AND status = 'QUEUED';
      v_open := true;
    ELSE
      INSERT INTO jobs.job_dependency (tenant_id, job_id, needs_id, met)
      SELECT p_tenant, id, v_needed.job_id, v_needed.status = 'SUCCEEDED' FROM unnest(p_jobs) AS id;
      UPDATE jobs.job SET awaited = true WHERE tenant_id = p_tenant AND job_id = v_needed.job_id AND NOT awaited;
      v_open := v_open OR v_needed.status <> 'SUCCEEDED';
    END IF;
  END LOOP;
  IF v_found < (SELECT count(DISTINCT n) FROM unnest(p_needs) AS n) THEN
    RAISE EXCEPTION 'a job that is depended on does not exist' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN v_open;
END $$;
CREATE FUNCTION jobs.cancel(p_tenant uuid, p_job uuid, p_reason text) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now   timestamptz := jobs.clock();
  v_job   record;
  v_taken boolean;
BEGIN
  PERFORM jobs.enter(p_tenant);
  FOR v_try IN 1..5 LOOP
    SELECT status, limit_key, priority INTO v_job FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job;
    IF NOT FOUND OR v_job.status <> 'QUEUED' THEN
      RETURN v_job.status;
    END IF;
    UPDATE jobs.job_lease SET cancel_requested = true, cancel_reason = coalesce(p_reason, cancel_reason)
     WHERE tenant_id = p_tenant AND job_id = p_job;
    IF FOUND THEN
      PERFORM pg_notify('jobs', 'cancel ' || p_tenant || ' ' || p_job);
      RETURN 'CANCELLING';
    END IF;
    -- Whoever claims the job at this moment makes us wait here, and the next turn finds its lease.
    DELETE FROM jobs.job_ready
     WHERE tenant_id = p_tenant AND limit_key = v_job.limit_key AND priority = v_job.priority AND job_id = p_job;
    v_taken := FOUND;
    IF NOT v_taken THEN
      DELETE FROM jobs.job_later WHERE tenant_id = p_tenant AND job_id = p_job;
      v_taken := FOUND;
    END IF;
    BEGIN
      SELECT status, awaited INTO v_job FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job FOR UPDATE;
      IF v_job.status = 'QUEUED' AND (v_taken OR EXISTS (
        SELECT FROM jobs.job_dependency WHERE tenant_id = p_tenant AND job_id = p_job AND NOT met))
      THEN
        UPDATE jobs.job
           SET status = 'CANCELLED', finished_at = v_now, last_error = json_build_object(
                 'code', 'JOB_CANCELLED', 'message', coalesce(p_reason, 'it was cancelled before it ran'))
         WHERE tenant_id = p_tenant AND job_id = p_job;
        IF v_job.awaited THEN
          PERFORM jobs.cancel_dependents(p_tenant, p_job, 'CANCELLED', v_now);
        END IF;
        RETURN 'CANCELLED';
      END IF;
      RAISE EXCEPTION 'it moved' USING ERRCODE = 'JB001';
    EXCEPTION WHEN SQLSTATE 'JB001' THEN
      NULL;  -- rolled back to before the job was locked; look again where it is now
    END;
  END LOOP;
  RAISE EXCEPTION 'job % moved five times while it was being cancelled', p_job USING ERRCODE = 'lock_not_available';
END $$;
CREATE FUNCTION jobs.cancel_dependents(p_tenant uuid, p_job uuid, p_status text, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_todo    uuid[] := ARRAY[p_job];
  v_waiting uuid[];
BEGIN
  PERFORM jobs.lock_dependents(p_tenant, p_job);
  WHILE cardinality(v_todo) > 0 LOOP
    v_waiting := ARRAY(
      SELECT j.job_id FROM jobs.job j
       WHERE j.tenant_id = p_tenant AND j.status IN ('QUEUED', 'CANCELLED') AND j.job_id = ANY (ARRAY(
         SELECT d.job_id FROM jobs.job_dependency d
          WHERE d.tenant_id = p_tenant AND d.needs_id = ANY (v_todo) AND NOT d.met))
       ORDER BY j.job_id FOR UPDATE);
    WITH ended AS (
      UPDATE jobs.job j
         SET status = 'CANCELLED', finished_at = p_now, last_error = jobs.because_of(
               n.needs_id, CASE WHEN n.needs_id = p_job THEN p_status ELSE 'CANCELLED' END)
        FROM (SELECT DISTINCT ON (d.job_id) d.job_id, d.needs_id FROM jobs.job_dependency d
               WHERE d.tenant_id = p_tenant AND d.job_id = ANY (v_waiting) AND d.needs_id = ANY (v_todo) AND NOT d.met
               ORDER BY d.job_id, d.needs_id) AS n
       WHERE j.tenant_id = p_tenant AND j.job_id = n.job_id AND j.job_id = ANY (v_waiting) AND j.status = 'QUEUED'
      RETURNING j.job_id, j.awaited)
    SELECT coalesce(array_agg(job_id) FILTER (WHERE awaited), '{}') INTO v_todo FROM ended;
  END LOOP;
END $$;
CREATE FUNCTION jobs.clock() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$ SELECT clock_timestamp() $$;
CREATE FUNCTION jobs.enter(p_tenant uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_bound text := nullif(current_setting('app.tenant_id', true), '');
BEGIN
  IF v_bound IS NULL THEN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
  ELSIF v_bound::uuid <> p_tenant THEN
    RAISE EXCEPTION 'this transaction belongs to tenant %, not to %', v_bound, p_tenant
      USING ERRCODE = 'insufficient_privilege';
  END IF;
END $$;
CREATE FUNCTION jobs.is_hopeless(p_tenant uuid, p_job uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM jobs.job_dependency d
      LEFT JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
     WHERE d.tenant_id = p_tenant AND d.job_id = p_job AND NOT d.met
       AND (n.status IS NULL OR n.status IN ('FAILED', 'DEAD_LETTER', 'CANCELLED')));
END $$;
CREATE FUNCTION jobs.limit_to(p_tenant uuid, p_key text, p_limit integer) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
  IF (SELECT count(*) = p_limit AND max(slot) = p_limit AND NOT bool_or(closing) FROM jobs.job_slot
       WHERE tenant_id = p_tenant AND limit_key = p_key) THEN
    RETURN;
  END IF;
  INSERT INTO jobs.job_slot (tenant_id, limit_key, slot)
  SELECT p_tenant, p_key, s FROM generate_series(1, p_limit) AS s ORDER BY s
      ON CONFLICT DO NOTHING;
  PERFORM FROM jobs.job_slot WHERE tenant_id = p_tenant AND limit_key = p_key ORDER BY slot FOR UPDATE;
  UPDATE jobs.job_slot SET closing = slot > p_limit
   WHERE tenant_id = p_tenant AND limit_key = p_key AND closing <> (slot > p_limit);
  DELETE FROM jobs.job_slot WHERE tenant_id = p_tenant AND limit_key = p_key AND closing AND job_id IS NULL;
END $$;
CREATE FUNCTION jobs.lock_dependents(p_tenant uuid, p_job uuid) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
  PERFORM FROM jobs.job j
    WHERE j.tenant_id = p_tenant AND j.job_id IN (
      WITH RECURSIVE waiting (job_id) AS (
        SELECT d.job_id FROM jobs.job_dependency d WHERE d.tenant_id = p_tenant AND d.needs_id = p_job AND NOT d.met
        UNION
        SELECT d.job_id FROM waiting w
          JOIN jobs.job_dependency d ON d.tenant_id = p_tenant AND d.needs_id = w.job_id AND NOT d.met)
      SELECT job_id FROM waiting)
    ORDER BY j.job_id FOR UPDATE;
END $$;
CREATE FUNCTION jobs.move_due(p_after timestamp with time zone, p_most integer) RETURNS TABLE(tenant_id uuid, limit_key text, priority smallint, moved bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := jobs.clock();
BEGIN
  RETURN QUERY
  WITH due AS (
    DELETE FROM jobs.job_later l WHERE (l.tenant_id, l.job_id) IN (
      SELECT d.tenant_id, d.job_id FROM jobs.job_later d
       WHERE d.run_at <= v_now AND d.run_at > p_after
       ORDER BY d.run_at LIMIT p_most FOR UPDATE SKIP LOCKED)
    RETURNING l.tenant_id, l.job_id, l.run_at, l.type, l.priority, l.attempt, l.limit_key
  ), ready AS (
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT tenant_id, job_id, type, priority, attempt, limit_key FROM due ORDER BY run_at, job_id
    RETURNING tenant_id, limit_key, priority)
  SELECT r.tenant_id, r.limit_key, r.priority, count(*) FROM ready r GROUP BY 1, 2, 3;
END $$;
CREATE FUNCTION jobs.queue(p_tenant uuid, p_job uuid, p_attempt integer, p_run_at timestamp with time zone, p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_limit_key text;
  v_priority  smallint;
BEGIN
  IF p_run_at > p_now THEN
    INSERT INTO jobs.job_later (tenant_id, job_id, run_at, type, priority, attempt, limit_key)
    SELECT tenant_id, job_id, p_run_at, type, priority, p_attempt, limit_key
      FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job
    RETURNING limit_key, priority INTO v_limit_key, v_priority;
  ELSE
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT tenant_id, job_id, type, priority, p_attempt, limit_key
      FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job
    RETURNING limit_key, priority INTO v_limit_key, v_priority;
  END IF;
  PERFORM jobs.wake(p_tenant, v_limit_key, v_priority);
END $$;
CREATE FUNCTION jobs.reap(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_until timestamp with time zone, p_bury boolean, p_error text) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_cancel boolean;
  v_max    int;
BEGIN
  SELECT cancel_requested INTO v_cancel FROM jobs.job_lease
   WHERE tenant_id = p_tenant AND job_id = p_job AND owner = p_owner AND attempt = p_attempt
     AND (p_until IS NULL OR lease_until = p_until)
     FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  SELECT max_attempts + uncounted INTO v_max FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job;
  IF v_cancel OR p_attempt < v_max THEN
    RETURN jobs.settle(p_tenant, p_job, p_owner, p_attempt, 'RETRY', NULL, p_error, 0);
  ELSIF p_bury THEN
    RETURN jobs.settle(p_tenant, p_job, p_owner, p_attempt, 'DEAD_LETTER', NULL, p_error, 0);
  END IF;
  RETURN 'BURY';
END $$;
CREATE FUNCTION jobs.redrive(p_tenant uuid, p_job uuid) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now     timestamptz := jobs.clock();
  v_job     record;
  v_waited  boolean;
  v_again   boolean;
BEGIN
  PERFORM jobs.enter(p_tenant);
  DELETE FROM jobs.job_later WHERE tenant_id = p_tenant AND job_id = p_job;  -- locked before the job, as everywhere
  v_waited := FOUND;
  SELECT status, attempts, last_error ->> 'because_of' AS because_of INTO v_job
    FROM jobs.job WHERE tenant_id = p_tenant AND job_id = p_job FOR UPDATE;
  v_again := v_job.status IN ('FAILED', 'DEAD_LETTER');
  IF v_job.status = 'CANCELLED' AND v_job.because_of IS NULL THEN
    v_again := NOT jobs.is_hopeless(p_tenant, p_job);
  END IF;
  IF v_again THEN
    UPDATE jobs.job
       SET status = 'QUEUED', uncounted = attempts, finished_at = NULL, failed_at = NULL, result = NULL,
           last_error = CASE WHEN status = 'CANCELLED' THEN NULL ELSE last_error END, scheduled_at = v_now
     WHERE tenant_id = p_tenant AND job_id = p_job;
    IF NOT EXISTS (SELECT FROM jobs.job_dependency WHERE tenant_id = p_tenant AND job_id = p_job AND NOT met) THEN
      PERFORM jobs.queue(p_tenant, p_job, v_job.attempts, v_now, v_now);
    END IF;
    PERFORM jobs.restore_dependents(p_tenant, p_job);
    RETURN 'QUEUED';
  ELSIF v_waited THEN
    UPDATE jobs.job SET scheduled_at = v_now WHERE tenant_id = p_tenant AND job_id = p_job;
    PERFORM jobs.queue(p_tenant, p_job, v_job.attempts, v_now, v_now);
    RETURN 'QUEUED';
  ELSIF v_job.status = 'QUEUED' THEN
    RETURN CASE
      WHEN EXISTS (SELECT FROM jobs.job_lease WHERE tenant_id = p_tenant AND job_id = p_job) THEN 'RUNNING'
      WHEN EXISTS (SELECT FROM jobs.job_dependency WHERE tenant_id = p_tenant AND job_id = p_job AND NOT met)
      THEN 'BLOCKED'
      ELSE 'READY' END;
  END IF;
  RETURN v_job.status;
END $$;
CREATE FUNCTION jobs.refuse_unknown_tenant() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT tenant_id FROM added) a
              WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = a.tenant_id)) THEN
    RAISE EXCEPTION 'a job needs a tenant that exists'
      USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'job_tenant_id_fkey';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION jobs.release_dependents(p_tenant uuid, p_jobs uuid[], p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_dependent record;
  v_released  int := 0;
BEGIN
  FOR v_dependent IN
    SELECT j.job_id, j.status, j.scheduled_at, j.attempts FROM jobs.job j
     WHERE j.tenant_id = p_tenant AND j.job_id IN (
       SELECT d.job_id FROM jobs.job_dependency d
        WHERE d.tenant_id = p_tenant AND d.needs_id = ANY (p_jobs) AND NOT d.met)
     ORDER BY j.job_id FOR UPDATE
  LOOP
    UPDATE jobs.job_dependency SET met = true
     WHERE tenant_id = p_tenant AND job_id = v_dependent.job_id AND needs_id = ANY (p_jobs) AND NOT met;
    IF FOUND AND v_dependent.status = 'QUEUED' AND NOT EXISTS (
      SELECT FROM jobs.job_dependency WHERE tenant_id = p_tenant AND job_id = v_dependent.job_id AND NOT met)
    THEN
      PERFORM jobs.queue(p_tenant, v_dependent.job_id, v_dependent.attempts, v_dependent.scheduled_at, p_now);
      v_released := v_released + 1;
    END IF;
  END LOOP;
  RETURN v_released;
END $$;
CREATE FUNCTION jobs.restore_dependents(p_tenant uuid, p_job uuid) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_todo    uuid[] := ARRAY[p_job];
  v_waiting uuid[];
BEGIN
  PERFORM jobs.lock_dependents(p_tenant, p_job);
  WHILE cardinality(v_todo) > 0 LOOP
    v_waiting := ARRAY(
      SELECT j.job_id FROM jobs.job j
       WHERE j.tenant_id = p_tenant AND j.status = 'CANCELLED' AND j.job_id IN (
         SELECT d.job_id FROM jobs.job_dependency d
          WHERE d.tenant_id = p_tenant AND d.needs_id = ANY (v_todo) AND NOT d.met)
       ORDER BY j.job_id FOR UPDATE);
    WITH restored AS (
      UPDATE jobs.job j SET status = 'QUEUED', finished_at = NULL, last_error = NULL
       WHERE j.tenant_id = p_tenant AND j.job_id = ANY (v_waiting) AND j.last_error ->> 'because_of' IS NOT NULL
         AND NOT jobs.is_hopeless(p_tenant, j.job_id)
      RETURNING j.job_id, j.awaited)
    SELECT coalesce(array_agg(job_id) FILTER (WHERE awaited), '{}') INTO v_todo FROM restored;
  END LOOP;
END $$;
CREATE FUNCTION jobs.save(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_what text, p_text text) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
  PERFORM jobs.enter(p_tenant);
  PERFORM FROM jobs.job_lease  -- locked before the job, as the end of an execution does
    WHERE tenant_id = p_tenant AND job_id = p_job AND owner = p_owner AND attempt = p_attempt
      FOR SHARE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE jobs.job
     SET checkpoint = CASE WHEN p_what = 'checkpoint' THEN p_text::json ELSE checkpoint END,
         step = CASE WHEN p_what = 'step' THEN p_text::json ELSE step END,
         progress = CASE WHEN p_what = 'progress' THEN p_text::json ELSE progress END
   WHERE tenant_id = p_tenant AND job_id = p_job;
  RETURN true;
END $$;
CREATE FUNCTION jobs.settle(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_outcome text, p_result text, p_error text, p_delay double precision) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now      timestamptz := jobs.clock();
  v_outcome  text := p_outcome;
  v_error    json := p_error;
  v_lease    jobs.job_lease;
  v_awaited  boolean;
BEGIN
  DELETE FROM jobs.job_lease
   WHERE tenant_id = p_tenant AND job_id = p_job AND owner = p_owner AND attempt = p_attempt
  RETURNING * INTO v_lease;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF v_lease.slot IS NOT NULL THEN
    UPDATE jobs.job_slot SET job_id = NULL
     WHERE tenant_id = p_tenant AND limit_key = v_lease.limit_key AND slot = v_lease.slot AND job_id = p_job;
    DELETE FROM jobs.job_slot
     WHERE tenant_id = p_tenant AND limit_key = v_lease.limit_key AND slot = v_lease.slot AND closing
       AND job_id IS NULL;
    PERFORM jobs.wake(p_tenant, v_lease.limit_key, v_lease.priority);
  END IF;
  IF v_lease.cancel_requested AND v_outcome IN ('RETRY', 'RELEASE', 'DEAD_LETTER') THEN
    v_outcome := 'CANCELLED';
  END IF;
  IF v_outcome = 'CANCELLED' AND v_lease.cancel_reason IS NOT NULL THEN
    v_error := json_build_object('code', 'JOB_CANCELLED', 'message', v_lease.cancel_reason);
  END IF;
  IF v_outcome IN ('RETRY', 'RELEASE') THEN
    UPDATE jobs.job
       SET attempts = p_attempt, uncounted = uncounted + (v_outcome = 'RELEASE')::int,
           started_at = v_lease.started_at, last_error = coalesce(v_error, last_error),
           scheduled_at = v_now + make_interval(secs => coalesce(p_delay, 0))
     WHERE tenant_id = p_tenant AND job_id = p_job;
    PERFORM jobs.queue(p_tenant, p_job, p_attempt, v_now + make_interval(secs => coalesce(p_delay, 0)), v_now);
    RETURN 'QUEUED';
  END IF;
  UPDATE jobs.job
     SET status = v_outcome, attempts = p_attempt, started_at = v_lease.started_at, finished_at = v_now,
         result = p_result::json, last_error = coalesce(v_error, last_error),
         failed_at = CASE WHEN v_outcome IN ('FAILED', 'DEAD_LETTER') THEN v_now END
   WHERE tenant_id = p_tenant AND job_id = p_job
  RETURNING awaited INTO v_awaited;
  IF v_awaited AND v_outcome = 'SUCCEEDED' THEN
    PERFORM jobs.release_dependents(p_tenant, ARRAY[p_job], v_now);
  ELSIF v_awaited THEN
    PERFORM jobs.cancel_dependents(p_tenant, p_job, v_outcome, v_now);
  END IF;
  RETURN v_outcome;
END $$;
CREATE FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text) RETURNS uuid[]
    LANGUAGE sql
    AS $$
  SELECT jobs.submit(p_tenant, p_type, p_ids, p_payloads, p_keys, p_delays, p_limit_keys, p_limit, p_priority,
                     p_max_attempts, p_keep_seconds, p_batch, p_needs, p_correlation_id, p_actor, p_traceparent, NULL,
                     NULL, NULL, NULL)
$$;
CREATE FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kinds text[], p_subject_ids text[], p_subject_groups text[]) RETURNS uuid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now    timestamptz := jobs.clock();
  v_ids    uuid[] := p_ids;   -- one per job given
  v_fresh  uuid[] := p_ids;   -- those that are new
  v_blocked boolean := false;
BEGIN
  PERFORM jobs.enter(p_tenant);
  IF p_keys IS NULL THEN
    INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, limit_key, batch_id, payload, created_at,
                          scheduled_at, keep_seconds, correlation_id, actor, traceparent, service_id,
                          subject_kind, subject_id, subject_group)
    SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, coalesce(u.limit_key, ''), p_batch, u.payload::json,
           v_now, CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
           p_keep_seconds, p_correlation_id, p_actor, p_traceparent, p_service_id, u.subject_kind, u.subject_id,
           u.subject_group
      FROM unnest(p_ids, p_payloads, p_delays, p_limit_keys, p_subject_kinds, p_subject_ids, p_subject_groups)
        AS u (id, payload, delay, limit_key, subject_kind, subject_id, subject_group);
  ELSE
    -- Sorted by key: two submissions with keys in common must not wait for each other in a circle. In bulk it is
    -- cheaper to hope for the best and fall back than to ask for every row whether its key is taken.
    IF cardinality(p_ids) > 8 THEN
      BEGIN
        INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, idempotency_key, limit_key, batch_id,
                              payload, created_at, scheduled_at, keep_seconds, correlation_id, actor, traceparent,
                              service_id, subject_kind, subject_id, subject_group)
        SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, u.key, coalesce(u.limit_key, ''), p_batch,
               u.payload::json, v_now,
               CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
               p_keep_seconds, p_correlation_id, p_actor, p_traceparent, p_service_id, u.subject_kind, u.subject_id,
               u.subject_group
          FROM unnest(p_ids, p_payloads, p_keys, p_delays, p_limit_keys, p_subject_kinds, p_subject_ids,
                      p_subject_groups)
            AS u (id, payload, key, delay, limit_key, subject_kind, subject_id, subject_group)
         ORDER BY u.key COLLATE "C";
      EXCEPTION WHEN unique_violation THEN
        v_fresh := NULL;
      END;
    ELSE
      v_fresh := NULL;
    END IF;
    IF v_fresh IS NULL THEN
      v_fresh := '{}';
      v_ids := NULL;
      LOOP
        WITH added AS (
          INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, idempotency_key, limit_key, batch_id,
                                payload, created_at, scheduled_at, keep_seconds, correlation_id, actor, traceparent,
                                service_id, subject_kind, subject_id, subject_group)
          SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, u.key, coalesce(u.limit_key, ''), p_batch,
                 u.payload::json, v_now,
                 CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
                 p_keep_seconds, p_correlation_id, p_actor, p_traceparent, p_service_id, u.subject_kind, u.subject_id,
                 u.subject_group
            FROM unnest(p_ids, p_payloads, p_keys, p_delays, p_limit_keys, v_ids, p_subject_kinds, p_subject_ids,
                        p_subject_groups)
              AS u (id, payload, key, delay, limit_key, answer, subject_kind, subject_id, subject_group)
           WHERE u.answer IS NULL
           ORDER BY u.key COLLATE "C", u.id
              ON CONFLICT (tenant_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
          RETURNING job_id)
        SELECT v_fresh || coalesce(array_agg(job_id), '{}') INTO v_fresh FROM added;
        SELECT array_agg(CASE WHEN u.key IS NULL THEN u.id ELSE j.job_id END ORDER BY u.at) INTO v_ids
          FROM unnest(p_ids, p_keys) WITH ORDINALITY AS u (id, key, at)
          LEFT JOIN jobs.job j ON j.tenant_id = p_tenant AND j.type = p_type AND j.idempotency_key = u.key;
        EXIT WHEN array_position(v_ids, NULL) IS NULL;  -- else retention removed it just now, and its key is free
      END LOOP;
    END IF;
  END IF;
  IF cardinality(v_fresh) = 0 THEN
    RETURN v_ids;
  END IF;
  IF p_limit_keys IS NOT NULL THEN
    PERFORM jobs.limit_to(p_tenant, k.key, p_limit) FROM (
      SELECT DISTINCT key FROM unnest(p_limit_keys) AS key WHERE key <> '' ORDER BY key) AS k;
  END IF;
  IF p_needs IS NOT NULL THEN
    v_blocked := jobs.block(p_tenant, v_fresh, p_needs, v_now);
  END IF;
  IF v_blocked THEN
    RETURN v_ids;
  END IF;
  IF p_delays IS NULL AND v_fresh = p_ids THEN  -- by far the most usual
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT p_tenant, u.id, p_type, p_priority, 0, coalesce(u.limit_key, '')
      FROM unnest(p_ids, p_limit_keys) AS u (id, limit_key);
  ELSE
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT p_tenant, u.id, p_type, p_priority, 0, coalesce(u.limit_key, '')
      FROM unnest(p_ids, p_delays, p_limit_keys) AS u (id, delay, limit_key)
     WHERE coalesce(u.delay, 0) <= 0 AND u.id = ANY (v_fresh);
    INSERT INTO jobs.job_later (tenant_id, job_id, run_at, type, priority, attempt, limit_key)
    SELECT p_tenant, u.id, v_now + make_interval(secs => u.delay), p_type, p_priority, 0, coalesce(u.limit_key, '')
      FROM unnest(p_ids, p_delays, p_limit_keys) AS u (id, delay, limit_key)
     WHERE u.delay > 0 AND u.id = ANY (v_fresh);
  END IF;
  IF p_limit_keys IS NULL THEN
    PERFORM jobs.wake(p_tenant, '', p_priority);
  ELSE
    PERFORM jobs.wake(p_tenant, coalesce(k.key, ''), p_priority)
       FROM (SELECT DISTINCT key FROM unnest(p_limit_keys) AS key) AS k;
  END IF;
  RETURN v_ids;
END $$;
CREATE FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text) RETURNS uuid
    LANGUAGE sql
    AS $$
  SELECT jobs.submit_one(p_tenant, p_type, p_id, p_payload, p_key, p_priority, p_max_attempts, p_keep_seconds,
                         p_correlation_id, p_actor, p_traceparent, NULL, NULL, NULL, NULL)
$$;
CREATE FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kind text, p_subject_id text, p_subject_group text) RETURNS uuid
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  v_now   timestamptz := jobs.clock();
  v_bound text := current_setting('app.tenant_id', true);
  v_id    uuid;
BEGIN
  IF v_bound IS NULL OR v_bound = '' THEN
    v_bound := set_config('app.tenant_id', p_tenant::text, true);
  ELSE
    PERFORM jobs.enter(p_tenant);
  END IF;
  LOOP
    WITH added AS (
      INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, idempotency_key, payload, created_at,
                            scheduled_at, keep_seconds, correlation_id, actor, traceparent, service_id, subject_kind,
                            subject_id, subject_group)
      VALUES (p_tenant, p_id, p_type, p_priority, p_max_attempts, p_key, p_payload::json, v_now, v_now, p_keep_seconds,
              p_correlation_id, p_actor, p_traceparent, p_service_id, p_subject_kind, p_subject_id, p_subject_group)
          ON CONFLICT (tenant_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
      RETURNING job_id)
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT p_tenant, job_id, p_type, p_priority, 0, '' FROM added
    RETURNING job_id INTO v_id;
    IF v_id IS NOT NULL THEN
      IF NOT pg_try_advisory_xact_lock_shared(1785684595, 1) THEN  -- as jobs.wake does
        PERFORM pg_notify('jobs', 'ready ' || p_tenant || ' ' || p_priority || ' ');
      END IF;
      RETURN v_id;
    END IF;
    SELECT job_id INTO v_id FROM jobs.job
     WHERE tenant_id = p_tenant AND type = p_type AND idempotency_key = p_key;
    IF v_id IS NOT NULL THEN
      RETURN v_id;
    END IF;  -- it was there a moment ago, and retention removed it
  END LOOP;
END $$;
CREATE FUNCTION jobs.wake(p_tenant uuid, p_limit_key text, p_priority smallint) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(1785684595, 1) THEN
    PERFORM pg_notify('jobs', 'ready ' || p_tenant || ' ' || p_priority || ' ' || left(p_limit_key, 1000));
  END IF;
END $$;
CREATE FUNCTION answered(p_tenant uuid, p_key text) RETURNS TABLE(request_hash bytea, response_status integer, response_headers text, response_body bytea)
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('idempotency/' || p_tenant || '/' || p_key, 0));
  RETURN QUERY
  SELECT i.request_hash::bytea, i.response_status, i.response_headers::text, i.response_body
    FROM idempotency_keys i WHERE i.tenant_id = p_tenant AND i.key = p_key;
END $$;
CREATE FUNCTION answered_by(p_tenant uuid, p_actor uuid, p_key text, p_hash bytea) RETURNS TABLE(request_hash bytea, response_status integer, response_headers text, response_body bytea)
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('idempotency/' || p_tenant || '/' || p_key, 0));
  RETURN QUERY
  SELECT i.request_hash::bytea, i.response_status, i.response_headers::text, i.response_body
    FROM idempotency_keys i
   WHERE i.tenant_id = p_tenant AND i.key = p_key
     AND (i.actor_id = p_actor
          OR (i.actor_id = '00000000-0000-0000-0000-000000000000' AND i.request_hash::bytea = p_hash))
   ORDER BY i.actor_id = p_actor DESC
   LIMIT 1;
END $$;
CREATE FUNCTION api_keys_by_pepper() RETURNS TABLE(slug text, pepper_id text, keys bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
  SELECT t.slug, k.pepper_id, count(*)
    FROM (SELECT tenant_id, pepper_id, expires_at, revoked_at FROM api_keys
          UNION ALL
          SELECT tenant_id, pepper_id, expires_at, revoked_at FROM view_grants) AS k
    JOIN tenants t ON t.tenant_id = k.tenant_id
   WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
   GROUP BY t.slug, k.pepper_id
   ORDER BY t.slug, k.pepper_id
$$;
CREATE FUNCTION assign_status_index(tenant uuid, version uuid, current_state integer, moment timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  chosen_list uuid;
  noise bytea;
BEGIN
  IF EXISTS (SELECT FROM status_entries e WHERE e.tenant_id = tenant AND e.passport_version_id = version) THEN
    RETURN;
  END IF;
  SELECT l.list_id INTO chosen_list FROM status_lists l
   WHERE l.tenant_id = tenant ORDER BY l.created_at DESC LIMIT 1;
  IF chosen_list IS NULL THEN
    -- Only for the first list: others that issue wait here, and then find it.
    PERFORM pg_advisory_xact_lock(hashtextextended('first status list of ' || tenant, 0));
    SELECT l.list_id INTO chosen_list FROM status_lists l
     WHERE l.tenant_id = tenant ORDER BY l.created_at DESC LIMIT 1;
  END IF;
  FOR attempt IN 1..16 LOOP
    EXIT WHEN chosen_list IS NULL;
    noise := uuid_send(gen_random_uuid());
    INSERT INTO status_entries (tenant_id, passport_version_id, list_id, list_index, state, since)
    VALUES (tenant, version, chosen_list,
            get_byte(noise, 0) * 512 + get_byte(noise, 1) * 2 + get_byte(noise, 2) / 128, current_state, moment)
    ON CONFLICT (tenant_id, list_id, list_index) DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
  INSERT INTO status_lists (tenant_id, created_at) VALUES (tenant, clock_timestamp())
  RETURNING list_id INTO chosen_list;
  noise := uuid_send(gen_random_uuid());
  INSERT INTO status_entries (tenant_id, passport_version_id, list_id, list_index, state, since)
  VALUES (tenant, version, chosen_list,
          get_byte(noise, 0) * 512 + get_byte(noise, 1) * 2 + get_byte(noise, 2) / 128, current_state, moment);
END $$;
CREATE FUNCTION count_compliance(payload bytea, wanted text) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'pg_catalog'
    AS $$
  SELECT count(*)::int
    FROM json_array_elements(
           replace(replace(convert_from(payload, 'UTF8'), '\\', ''), '\u0000', '')::json -> 'compliance') AS entry
   WHERE entry ->> 'status' = wanted
$$;
CREATE FUNCTION current_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
  SELECT nullif(current_setting('app.tenant_id', true), '')::uuid  -- '' after a SET LOCAL has ended
$$;
CREATE FUNCTION end_cancelled_delivery() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    SET lock_timeout TO '500ms'
    AS $$
DECLARE
  v_bound text := coalesce(current_setting('app.tenant_id', true), '');
  v_says  text := NEW.last_error ->> 'message';
BEGIN
  PERFORM set_config('app.tenant_id', NEW.tenant_id::text, true);
  UPDATE webhook_deliveries
     SET status = 'FAILED', last_error = jsonb_build_object(
           'code', 'JOB_CANCELLED', 'retryable', false, 'message',
           CASE WHEN NEW.last_error ->> 'code' = 'JOB_CANCELLED' THEN v_says ELSE 'its job was cancelled' END)
   WHERE tenant_id = NEW.tenant_id AND webhook_delivery_id = (NEW.payload ->> 'webhook_delivery_id')::uuid
     AND status = 'PENDING';
  PERFORM set_config('app.tenant_id', v_bound, true);
  RETURN NULL;
END $$;
CREATE FUNCTION events_without_a_tenant() RETURNS TABLE(tenant_id uuid, aggregate_type text, aggregate_id uuid, aggregate_version bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
  SELECT e.tenant_id, e.aggregate_type, e.aggregate_id, e.aggregate_version
    FROM events e
   WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.tenant_id = e.tenant_id)
   ORDER BY e.tenant_id, e.aggregate_type, e.aggregate_id, e.aggregate_version
$$;
CREATE FUNCTION find_access_version(the_tenant uuid) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  SELECT access_version FROM tenants WHERE tenant_id = the_tenant
$$;
CREATE FUNCTION find_api_key(prefix text) RETURNS TABLE(tenant_id uuid, api_key_id uuid, actor_id uuid, key_hash bytea, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone, is_active boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
  SELECT k.tenant_id, k.api_key_id, k.actor_id, k.key_hash, k.expires_at, k.revoked_at, k.last_used_at,
         a.is_active AND t.is_active
    FROM api_key_prefixes p
    JOIN api_keys k ON k.tenant_id = p.tenant_id AND k.key_prefix = p.key_prefix
    JOIN actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
    JOIN tenants t ON t.tenant_id = k.tenant_id
   WHERE p.key_prefix = prefix
$$;
CREATE FUNCTION find_caller(prefix text) RETURNS TABLE(tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone, is_active boolean, roles text[], permissions text[], policies text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$  -- plpgsql keeps its plan
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT k.tenant_id, k.api_key_id, k.actor_id, a.type::text, k.key_hash::bytea, k.expires_at, k.revoked_at, k.last_used_at,
         a.is_active AND t.is_active,
         ARRAY(SELECT r.name FROM actor_roles ar
                 JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                WHERE ar.tenant_id = k.tenant_id AND ar.actor_id = k.actor_id ORDER BY r.name),
         ARRAY(SELECT DISTINCT rp.permission FROM actor_roles ar
                 JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
                WHERE ar.tenant_id = k.tenant_id AND ar.actor_id = k.actor_id),
         (SELECT json_agg(json_build_object(
                   'policy_id', v.policy_id, 'policy_version_id', v.policy_version_id, 'version', v.version,
                   'effect', v.effect, 'target', v.target, 'priority', v.priority, 'policy_json', v.policy_json))::text
            FROM policy_versions v WHERE v.tenant_id = k.tenant_id AND v.is_active)
    FROM api_key_prefixes p
    JOIN api_keys k ON k.tenant_id = p.tenant_id AND k.key_prefix = p.key_prefix
    JOIN actors a ON a.tenant_id = k.tenant_id AND a.actor_id = k.actor_id
    JOIN tenants t ON t.tenant_id = k.tenant_id
   WHERE p.key_prefix = prefix;
END $$;
CREATE FUNCTION find_console_session(the_tenant uuid, the_session uuid) RETURNS TABLE(tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone, is_active boolean, roles text[], permissions text[], policies text, created_at timestamp with time zone, actor_name text, tenant_name text, tenant_slug text, issuer text, roles_read_at timestamp with time zone)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$  -- plpgsql keeps its plan
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
CREATE FUNCTION find_documents_by_text(needle text, most integer) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
  RETURN QUERY
  SELECT document_id FROM documents
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, coalesce(name, '') || ' ' || coalesce(external_ref, ''), 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(coalesce(name, '') || ' ' || coalesce(external_ref, ''))) > 0
   LIMIT most;
END $$;
CREATE FUNCTION find_products_by_text(needle text, most integer) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
  RETURN QUERY
  SELECT battery_product_id FROM battery_products
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, sku || ' ' || name, 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(sku || ' ' || name)) > 0
   LIMIT most;
END $$;
CREATE FUNCTION find_public_battery(wanted_id uuid, wanted_gtin text, wanted_serial text, wanted_link text) RETURNS TABLE(ceased_at timestamp with time zone, successor text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  SELECT matches.ceased_at, matches.successor FROM (
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM batteries b WHERE b.battery_id = wanted_id
    UNION ALL
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM battery_identifications i
      JOIN batteries b ON b.tenant_id = i.tenant_id AND b.serial_number = wanted_serial
                             AND b.battery_product_id = i.battery_product_id
     WHERE i.gtin = wanted_gtin
    UNION ALL
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM batteries b WHERE b.link = wanted_link) AS matches
  ORDER BY matches.registered_at, matches.battery_id LIMIT 1
$$;
CREATE FUNCTION find_public_item(wanted_id uuid, wanted_gtin text, wanted_lot text, wanted_serial text, only_tenant uuid) RETURNS TABLE(tenant_id uuid, granularity text, gtin text, passport_id uuid, battery_id uuid, serial_number text, batch_number text, ceased_at timestamp with time zone, successor text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  SELECT m.tenant_id, m.granularity, m.gtin, p.passport_id, m.battery_id, m.serial_number,
         (SELECT c.batch_number FROM battery_batches c
           WHERE c.tenant_id = m.tenant_id AND c.battery_batch_id = m.battery_batch_id
          UNION ALL
          SELECT c.batch_number FROM battery_batches c
           WHERE wanted_serial IS NULL AND c.tenant_id = m.tenant_id AND c.battery_product_id = m.battery_product_id
             AND c.batch_number = wanted_lot
           LIMIT 1),
         m.ceased_at, m.successor
    FROM (
      SELECT b.tenant_id, b.battery_product_id, coalesce(i.granularity, 'ITEM') AS granularity, i.gtin, b.battery_id,
             b.serial_number, b.battery_batch_id, b.ceased_at, b.successor, b.registered_at, b.registered_at AS begun_at
        FROM batteries b
        LEFT JOIN battery_identifications i ON i.tenant_id = b.tenant_id
                                                  AND i.battery_product_id = b.battery_product_id
       WHERE b.battery_id = wanted_id
      UNION ALL
      SELECT i.tenant_id, i.battery_product_id, i.granularity, i.gtin, b.battery_id, b.serial_number,
             b.battery_batch_id, b.ceased_at, b.successor, b.registered_at, t.created_at
        FROM battery_identifications i
        JOIN battery_products t ON t.tenant_id = i.tenant_id AND t.battery_product_id = i.battery_product_id
        LEFT JOIN batteries b ON b.tenant_id = i.tenant_id AND b.serial_number = wanted_serial
                                    AND b.battery_product_id = i.battery_product_id
       WHERE i.gtin = wanted_gtin) AS m
    LEFT JOIN passports p ON p.tenant_id = m.tenant_id AND p.battery_product_id = m.battery_product_id
   WHERE only_tenant IS NULL OR m.tenant_id = only_tenant
   ORDER BY m.registered_at NULLS LAST, m.begun_at, m.tenant_id LIMIT 1
$$;
CREATE FUNCTION find_public_passport(the_passport uuid) RETURNS TABLE(tenant_id uuid, issuer text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
  SELECT p.tenant_id, t.name
    FROM passports p
    JOIN tenants t ON t.tenant_id = p.tenant_id
   WHERE p.passport_id = the_passport
$$;
CREATE FUNCTION find_rule_packages_by_text(needle text, most integer) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
  RETURN QUERY
  SELECT rule_package_id FROM rule_packages
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, name || ' ' || coalesce(description, ''), 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(name || ' ' || coalesce(description, ''))) > 0
   LIMIT most;
END $$;
CREATE FUNCTION find_session(the_tenant uuid, the_session uuid) RETURNS TABLE(tenant_id uuid, api_key_id uuid, actor_id uuid, actor_type text, key_hash bytea, expires_at timestamp with time zone, revoked_at timestamp with time zone, last_used_at timestamp with time zone, is_active boolean, roles text[], permissions text[], policies text, created_at timestamp with time zone, actor_name text, tenant_name text, tenant_slug text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$  -- plpgsql keeps its plan
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
CREATE FUNCTION find_view_grant(prefix text) RETURNS TABLE(tenant_id uuid, view_grant_id uuid, code_hash bytea, is_active boolean, ends_at timestamp with time zone, is_revoked boolean)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  SELECT g.tenant_id, g.view_grant_id, g.code_hash::bytea, t.is_active, least(g.expires_at, p.expires_at),
         g.revoked_at IS NOT NULL OR p.revoked_at IS NOT NULL
    FROM view_grants g
    JOIN tenants t ON t.tenant_id = g.tenant_id
    LEFT JOIN view_grants p ON p.tenant_id = g.tenant_id AND p.view_grant_id = g.parent_id
   WHERE g.code_prefix = prefix
   ORDER BY g.created_at LIMIT 1
$$;
CREATE FUNCTION fold_case(content text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
  SELECT CASE WHEN octet_length(content) = length(content) THEN lower(content COLLATE "C") ELSE
           translate(
             lower(content COLLATE "C"),
             'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹ'
             'ŻŽΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐȘȚẞ',
             'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿź'
             'żžάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋѐёђѓєѕіїјљњћќѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяґșțß') END
$$;
CREATE FUNCTION follow_version_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  CASE NEW.status
    WHEN 'SIGNED' THEN
      PERFORM assign_status_index(NEW.tenant_id, NEW.passport_version_id, 0::int, now());
    WHEN 'SUPERSEDED' THEN
      UPDATE status_entries SET state = 1, since = NEW.superseded_at, statement_due = true
       WHERE tenant_id = NEW.tenant_id AND passport_version_id = NEW.passport_version_id;
    WHEN 'REVOKED' THEN
      UPDATE status_entries SET state = 2, since = NEW.revoked_at, statement_due = true
       WHERE tenant_id = NEW.tenant_id AND passport_version_id = NEW.passport_version_id;
    ELSE NULL;
  END CASE;
  RETURN NULL;
END $$;
CREATE FUNCTION locked_event_head(the_type text, the_id uuid, OUT aggregate_version bigint, OUT event_hash bytea) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(current_tenant() || '/' || the_type || '/' || the_id, 0));
  SELECT e.aggregate_version, e.event_hash INTO aggregate_version, event_hash
    FROM events e
   WHERE e.tenant_id = current_tenant() AND e.aggregate_type = the_type AND e.aggregate_id = the_id
   ORDER BY e.aggregate_version DESC
   LIMIT 1;
  IF NOT FOUND THEN
    SELECT a.aggregate_version, a.event_hash INTO aggregate_version, event_hash
      FROM event_anchors a
     WHERE a.tenant_id = current_tenant() AND a.aggregate_type = the_type AND a.aggregate_id = the_id;
  END IF;
END $$;
CREATE FUNCTION offers_to_this_tenant() RETURNS TABLE(tenant_id uuid, transfer_id uuid, other_tenant_id uuid, offer bytea, offered_at timestamp with time zone, expires_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
  SELECT t.other_tenant_id, t.transfer_id, t.tenant_id, t.offer, t.offered_at, t.expires_at
    FROM battery_transfers t
   WHERE t.other_tenant_id = current_tenant() AND t.side = 'GIVES' AND t.state = 'OFFERED'
     AND t.expires_at > now()
$$;
CREATE FUNCTION put_into_log_outbox() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                                 event_hash, payload_canonical)
  VALUES (NEW.tenant_id, NEW.event_type, NEW.aggregate_type, NEW.aggregate_id, NEW.aggregate_version, NEW.occurred_at,
          NEW.event_hash, NEW.payload_canonical);
  RETURN NULL;
END $$;
CREATE FUNCTION read_version_at_once(the_tenant uuid, known uuid, the_version uuid, which text, OUT is_current boolean, OUT content bytea, OUT waived integer) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM set_config('app.tenant_id', the_tenant::text, true);
  PERFORM FROM tenants WHERE tenant_id = the_tenant AND access_version = known;
  is_current := FOUND;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  CASE which
    WHEN 'payload' THEN
      SELECT payload_canonical INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
    WHEN 'receipt' THEN
      SELECT receipt_canonical INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
    WHEN 'view' THEN  -- its bytes are kept by whoever asks; here only whether it may still be shown
      SELECT '' INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
      SELECT coalesce(sum(entries), 0) INTO waived FROM passport_waivers
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
  END CASE;
END $$;
CREATE FUNCTION refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'BP001', MESSAGE = TG_ARGV[0], TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME;
END $$;
CREATE FUNCTION refuse_before_anchor() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM event_anchors a
                  WHERE a.tenant_id = OLD.tenant_id AND a.aggregate_type = OLD.aggregate_type
                    AND a.aggregate_id = OLD.aggregate_id AND a.aggregate_version >= OLD.aggregate_version) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'an event is only ever removed behind an anchor';
  END IF;
  RETURN OLD;
END $$;
CREATE FUNCTION refuse_loose_anchor() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM events e
                  WHERE e.tenant_id = NEW.tenant_id AND e.aggregate_type = NEW.aggregate_type
                    AND e.aggregate_id = NEW.aggregate_id AND e.aggregate_version = NEW.aggregate_version
                    AND e.event_hash = NEW.event_hash) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'an anchor is put where an event of that version and hash is';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION refuse_unless_draft() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  found_status rule_pkg_status;
BEGIN
  SELECT status INTO found_status FROM rule_package_versions
   WHERE tenant_id = NEW.tenant_id AND rule_package_version_id = NEW.rule_package_version_id
     FOR SHARE;
  IF found_status <> 'DRAFT' THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = 'a rule version''s fields never change';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION refuse_when_sealed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  -- Everything with its schema: a temporary table or type of the same name would be found first.
  item snapshot_items := coalesce(NEW, OLD);
  found_status snapshot_status;
BEGIN
  SELECT status INTO found_status FROM data_snapshots
   WHERE tenant_id = item.tenant_id AND snapshot_id = item.snapshot_id
     FOR SHARE;
  IF found_status = 'SEALED' THEN
    RAISE EXCEPTION USING ERRCODE = 'BP001', TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
      MESSAGE = format('snapshot `%s` is sealed', item.snapshot_id);
  END IF;
  RETURN item;
END $$;
CREATE FUNCTION renew_access_version() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
BEGIN
  UPDATE tenants SET access_version = gen_random_uuid()
   WHERE tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id)
     AND xmin <> pg_current_xact_id()::xid;  -- once for each transaction: nobody else has seen its version yet
  RETURN NULL;
END $$;
CREATE FUNCTION renew_own_access_version() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  NEW.access_version := gen_random_uuid();
  RETURN NEW;
END $$;
CREATE FUNCTION renew_statistics() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public', 'pg_temp'
    AS $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace
       AND c.relname IN ('documents', 'document_versions', 'facts', 'fact_sources', 'data_snapshots', 'snapshot_items')
       AND (c.reltuples <= 0 OR pg_relation_size(c.oid) >= 4 * 8192 * greatest(c.relpages, 1)::bigint)
     ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', name);
      EXECUTE format('ANALYZE %I', name);
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
END
$$;
CREATE FUNCTION require_access_version(known uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tenants WHERE tenant_id = (SELECT current_tenant()) AND access_version = known) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP002', MESSAGE = 'the access of this tenant has changed';
  END IF;
END $$;
CREATE FUNCTION require_new_key(p_actor uuid, p_key text, p_hash bytea) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF EXISTS (SELECT FROM answered_by(current_tenant(), p_actor, p_key, p_hash)) THEN
    RAISE EXCEPTION USING ERRCODE = 'BP003', MESSAGE = 'this idempotency key was used before';
  END IF;
END $$;
CREATE FUNCTION search_grams(tenant uuid, content text, smallest integer) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE STRICT COST 1000 PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'public'
    AS $$
  SELECT coalesce(array_agg(hashtextextended(substr(folded, place, size), seed)), '{}')
    FROM (SELECT fold_case(content) AS folded, hashtextextended(tenant::text, 0) AS seed) AS folding
   CROSS JOIN generate_series(smallest, 3) AS size
   CROSS JOIN LATERAL generate_series(1, length(folded) - size + 1) AS place
$$;
CREATE FUNCTION state_new_version() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'public'
    AS $$
BEGIN
  INSERT INTO document_statements (tenant_id, statement_id, document_id, sequence, document_version_id, stated_at)
  SELECT NEW.tenant_id, NEW.document_version_id, NEW.document_id, coalesce(max(s.sequence), 0) + 1,
         NEW.document_version_id, NEW.uploaded_at
    FROM document_statements s
   WHERE s.tenant_id = NEW.tenant_id AND s.document_id = NEW.document_id
  HAVING NOT coalesce(bool_or(s.document_version_id = NEW.document_version_id), false);
  RETURN NULL;
END $$;
CREATE FUNCTION take_token(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, OUT tokens_left double precision, OUT wait double precision) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_now    timestamptz := clock_timestamp();
  v_tokens float8;
BEGIN
  PERFORM set_config('app.tenant_id', p_tenant::text, true);
  INSERT INTO rate_limit_buckets AS b (tenant_id, key_hash, capacity, tokens, refill_per_second, updated_at)
  VALUES (p_tenant, p_key, p_capacity, p_capacity, p_rate, v_now)
      ON CONFLICT (tenant_id, key_hash) DO UPDATE
     SET capacity = p_capacity, refill_per_second = p_rate,
         tokens = least(p_capacity, b.tokens
                    + p_rate * greatest(0, extract(epoch FROM clock_timestamp() - b.updated_at))),
         updated_at = greatest(b.updated_at, clock_timestamp())
  RETURNING b.tokens INTO v_tokens;
  IF v_tokens >= 1 THEN
    UPDATE rate_limit_buckets SET tokens = tokens - 1 WHERE tenant_id = p_tenant AND key_hash = p_key;
    tokens_left := v_tokens - 1;
    wait := 0;
  ELSE
    tokens_left := v_tokens;
    wait := (1 - v_tokens) / p_rate;
  END IF;
END $$;
CREATE FUNCTION take_tokens(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, p_most integer, OUT taken integer, OUT tokens_left double precision, OUT wait double precision) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_now    timestamptz := clock_timestamp();
  v_tokens float8;
BEGIN
  PERFORM set_config('app.tenant_id', p_tenant::text, true);
  INSERT INTO rate_limit_buckets AS b (tenant_id, key_hash, capacity, tokens, refill_per_second, updated_at)
  VALUES (p_tenant, p_key, p_capacity, p_capacity, p_rate, v_now)
      ON CONFLICT (tenant_id, key_hash) DO UPDATE
     SET capacity = p_capacity, refill_per_second = p_rate,
         tokens = least(p_capacity, b.tokens
                    + p_rate * greatest(0, extract(epoch FROM clock_timestamp() - b.updated_at))),
         updated_at = greatest(b.updated_at, clock_timestamp())
  RETURNING b.tokens INTO v_tokens;
  taken := least(p_most, floor(v_tokens))::integer;
  tokens_left := v_tokens - taken;
  wait := CASE WHEN taken > 0 THEN 0 ELSE (1 - v_tokens) / p_rate END;
  IF taken > 0 THEN
    UPDATE rate_limit_buckets SET tokens = tokens - taken WHERE tenant_id = p_tenant AND key_hash = p_key;
  END IF;
END $$;
REVOKE ALL ON FUNCTION jobs.because_of(p_needed uuid, p_status text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.because_of(p_needed uuid, p_status text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.block(p_tenant uuid, p_jobs uuid[], p_needs uuid[], p_now timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.block(p_tenant uuid, p_jobs uuid[], p_needs uuid[], p_now timestamp with time zone) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.cancel(p_tenant uuid, p_job uuid, p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.cancel(p_tenant uuid, p_job uuid, p_reason text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.cancel_dependents(p_tenant uuid, p_job uuid, p_status text, p_now timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.cancel_dependents(p_tenant uuid, p_job uuid, p_status text, p_now timestamp with time zone) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.clock() FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.clock() TO bpc_app;
REVOKE ALL ON FUNCTION jobs.enter(p_tenant uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.enter(p_tenant uuid) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.is_hopeless(p_tenant uuid, p_job uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.is_hopeless(p_tenant uuid, p_job uuid) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.limit_to(p_tenant uuid, p_key text, p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.limit_to(p_tenant uuid, p_key text, p_limit integer) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.lock_dependents(p_tenant uuid, p_job uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.lock_dependents(p_tenant uuid, p_job uuid) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.move_due(p_after timestamp with time zone, p_most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.move_due(p_after timestamp with time zone, p_most integer) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.queue(p_tenant uuid, p_job uuid, p_attempt integer, p_run_at timestamp with time zone, p_now timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.queue(p_tenant uuid, p_job uuid, p_attempt integer, p_run_at timestamp with time zone, p_now timestamp with time zone) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.reap(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_until timestamp with time zone, p_bury boolean, p_error text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.reap(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_until timestamp with time zone, p_bury boolean, p_error text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.redrive(p_tenant uuid, p_job uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.redrive(p_tenant uuid, p_job uuid) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.refuse_unknown_tenant() FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.refuse_unknown_tenant() TO bpc_app;
REVOKE ALL ON FUNCTION jobs.release_dependents(p_tenant uuid, p_jobs uuid[], p_now timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.release_dependents(p_tenant uuid, p_jobs uuid[], p_now timestamp with time zone) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.restore_dependents(p_tenant uuid, p_job uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.restore_dependents(p_tenant uuid, p_job uuid) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.save(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_what text, p_text text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.save(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_what text, p_text text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.settle(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_outcome text, p_result text, p_error text, p_delay double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.settle(p_tenant uuid, p_job uuid, p_owner text, p_attempt integer, p_outcome text, p_result text, p_error text, p_delay double precision) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kinds text[], p_subject_ids text[], p_subject_groups text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.submit(p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays double precision[], p_limit_keys text[], p_limit integer, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_batch uuid, p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kinds text[], p_subject_ids text[], p_subject_groups text[]) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kind text, p_subject_id text, p_subject_group text) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.submit_one(p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts integer, p_keep_seconds integer, p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kind text, p_subject_id text, p_subject_group text) TO bpc_app;
REVOKE ALL ON FUNCTION jobs.wake(p_tenant uuid, p_limit_key text, p_priority smallint) FROM PUBLIC;
GRANT ALL ON FUNCTION jobs.wake(p_tenant uuid, p_limit_key text, p_priority smallint) TO bpc_app;
REVOKE ALL ON FUNCTION answered(p_tenant uuid, p_key text) FROM PUBLIC;
GRANT ALL ON FUNCTION answered(p_tenant uuid, p_key text) TO bpc_app;
REVOKE ALL ON FUNCTION answered_by(p_tenant uuid, p_actor uuid, p_key text, p_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION answered_by(p_tenant uuid, p_actor uuid, p_key text, p_hash bytea) TO bpc_app;
REVOKE ALL ON FUNCTION api_keys_by_pepper() FROM PUBLIC;
GRANT ALL ON FUNCTION api_keys_by_pepper() TO bpc_system;
REVOKE ALL ON FUNCTION assign_status_index(tenant uuid, version uuid, current_state integer, moment timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION assign_status_index(tenant uuid, version uuid, current_state integer, moment timestamp with time zone) TO bpc_app;
GRANT ALL ON FUNCTION assign_status_index(tenant uuid, version uuid, current_state integer, moment timestamp with time zone) TO bpc_system;
REVOKE ALL ON FUNCTION count_compliance(payload bytea, wanted text) FROM PUBLIC;
GRANT ALL ON FUNCTION count_compliance(payload bytea, wanted text) TO bpc_app;
REVOKE ALL ON FUNCTION current_tenant() FROM PUBLIC;
GRANT ALL ON FUNCTION current_tenant() TO bpc_app;
REVOKE ALL ON FUNCTION end_cancelled_delivery() FROM PUBLIC;
REVOKE ALL ON FUNCTION events_without_a_tenant() FROM PUBLIC;
GRANT ALL ON FUNCTION events_without_a_tenant() TO bpc_system;
REVOKE ALL ON FUNCTION find_access_version(the_tenant uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION find_access_version(the_tenant uuid) TO bpc_app;
REVOKE ALL ON FUNCTION find_api_key(prefix text) FROM PUBLIC;
GRANT ALL ON FUNCTION find_api_key(prefix text) TO bpc_app;
REVOKE ALL ON FUNCTION find_caller(prefix text) FROM PUBLIC;
GRANT ALL ON FUNCTION find_caller(prefix text) TO bpc_app;
REVOKE ALL ON FUNCTION find_console_session(the_tenant uuid, the_session uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION find_console_session(the_tenant uuid, the_session uuid) TO bpc_app;
REVOKE ALL ON FUNCTION find_documents_by_text(needle text, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION find_documents_by_text(needle text, most integer) TO bpc_app;
REVOKE ALL ON FUNCTION find_products_by_text(needle text, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION find_products_by_text(needle text, most integer) TO bpc_app;
REVOKE ALL ON FUNCTION find_public_battery(wanted_id uuid, wanted_gtin text, wanted_serial text, wanted_link text) FROM PUBLIC;
GRANT ALL ON FUNCTION find_public_battery(wanted_id uuid, wanted_gtin text, wanted_serial text, wanted_link text) TO bpc_app;
REVOKE ALL ON FUNCTION find_public_item(wanted_id uuid, wanted_gtin text, wanted_lot text, wanted_serial text, only_tenant uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION find_public_item(wanted_id uuid, wanted_gtin text, wanted_lot text, wanted_serial text, only_tenant uuid) TO bpc_app;
REVOKE ALL ON FUNCTION find_public_passport(the_passport uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION find_public_passport(the_passport uuid) TO bpc_app;
REVOKE ALL ON FUNCTION find_rule_packages_by_text(needle text, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION find_rule_packages_by_text(needle text, most integer) TO bpc_app;
REVOKE ALL ON FUNCTION find_session(the_tenant uuid, the_session uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION find_session(the_tenant uuid, the_session uuid) TO bpc_app;
REVOKE ALL ON FUNCTION find_view_grant(prefix text) FROM PUBLIC;
GRANT ALL ON FUNCTION find_view_grant(prefix text) TO bpc_app;
REVOKE ALL ON FUNCTION fold_case(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION fold_case(content text) TO bpc_app;
REVOKE ALL ON FUNCTION follow_version_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION locked_event_head(the_type text, the_id uuid, OUT aggregate_version bigint, OUT event_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION locked_event_head(the_type text, the_id uuid, OUT aggregate_version bigint, OUT event_hash bytea) TO bpc_app;
REVOKE ALL ON FUNCTION offers_to_this_tenant() FROM PUBLIC;
GRANT ALL ON FUNCTION offers_to_this_tenant() TO bpc_app;
REVOKE ALL ON FUNCTION put_into_log_outbox() FROM PUBLIC;
REVOKE ALL ON FUNCTION read_version_at_once(the_tenant uuid, known uuid, the_version uuid, which text, OUT is_current boolean, OUT content bytea, OUT waived integer) FROM PUBLIC;
GRANT ALL ON FUNCTION read_version_at_once(the_tenant uuid, known uuid, the_version uuid, which text, OUT is_current boolean, OUT content bytea, OUT waived integer) TO bpc_app;
REVOKE ALL ON FUNCTION refuse() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_before_anchor() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_loose_anchor() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_unless_draft() FROM PUBLIC;
REVOKE ALL ON FUNCTION refuse_when_sealed() FROM PUBLIC;
REVOKE ALL ON FUNCTION renew_access_version() FROM PUBLIC;
REVOKE ALL ON FUNCTION renew_own_access_version() FROM PUBLIC;
REVOKE ALL ON FUNCTION renew_statistics() FROM PUBLIC;
GRANT ALL ON FUNCTION renew_statistics() TO bpc_app;
REVOKE ALL ON FUNCTION require_access_version(known uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION require_access_version(known uuid) TO bpc_app;
REVOKE ALL ON FUNCTION require_new_key(p_actor uuid, p_key text, p_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION require_new_key(p_actor uuid, p_key text, p_hash bytea) TO bpc_app;
REVOKE ALL ON FUNCTION search_grams(tenant uuid, content text, smallest integer) FROM PUBLIC;
GRANT ALL ON FUNCTION search_grams(tenant uuid, content text, smallest integer) TO bpc_app;
REVOKE ALL ON FUNCTION state_new_version() FROM PUBLIC;
REVOKE ALL ON FUNCTION take_token(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, OUT tokens_left double precision, OUT wait double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION take_token(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, OUT tokens_left double precision, OUT wait double precision) TO bpc_app;
REVOKE ALL ON FUNCTION take_tokens(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, p_most integer, OUT taken integer, OUT tokens_left double precision, OUT wait double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION take_tokens(p_tenant uuid, p_key bytea, p_capacity integer, p_rate integer, p_most integer, OUT taken integer, OUT tokens_left double precision, OUT wait double precision) TO bpc_app;

-- actor_identities ----------------------------------------------------------------------------------------------
CREATE TABLE actor_identities (
    tenant_id uuid NOT NULL,
    identity_hash bytea NOT NULL,
    actor_id uuid NOT NULL,
    issuer text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT actor_identities_identity_hash_check CHECK ((octet_length(identity_hash) = 32)),
    CONSTRAINT actor_identities_issuer_check CHECK ((issuer <> ''::text))
);
ALTER TABLE actor_identities FORCE ROW LEVEL SECURITY;
ALTER TABLE actor_identities ADD CONSTRAINT actor_identities_actor_key UNIQUE (tenant_id, actor_id);
ALTER TABLE actor_identities ADD CONSTRAINT actor_identities_pkey PRIMARY KEY (tenant_id, identity_hash);
ALTER TABLE actor_identities ADD CONSTRAINT actor_identities_tenant_id_actor_id_fkey FOREIGN KEY (tenant_id, actor_id) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE actor_identities ADD CONSTRAINT actor_identities_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE TRIGGER actor_identities_never_change BEFORE DELETE OR UPDATE ON actor_identities FOR EACH ROW EXECUTE FUNCTION refuse('who somebody is never changes');
CREATE TRIGGER actor_identities_not_truncated BEFORE TRUNCATE ON actor_identities FOR EACH STATEMENT EXECUTE FUNCTION refuse('who somebody is never changes');
ALTER TABLE actor_identities ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON actor_identities USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE actor_identities TO bpc_app;

-- actor_roles ---------------------------------------------------------------------------------------------------
CREATE TABLE actor_roles (
    tenant_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    role_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE actor_roles FORCE ROW LEVEL SECURITY;
ALTER TABLE actor_roles ADD CONSTRAINT actor_roles_pkey PRIMARY KEY (tenant_id, actor_id, role_id);
ALTER TABLE actor_roles ADD CONSTRAINT actor_roles_tenant_id_actor_id_fkey FOREIGN KEY (tenant_id, actor_id) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE actor_roles ADD CONSTRAINT actor_roles_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE actor_roles ADD CONSTRAINT actor_roles_tenant_id_role_id_fkey FOREIGN KEY (tenant_id, role_id) REFERENCES roles(tenant_id, role_id);
CREATE TRIGGER actor_roles_renew_access AFTER INSERT OR DELETE OR UPDATE ON actor_roles FOR EACH ROW EXECUTE FUNCTION renew_access_version();
ALTER TABLE actor_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON actor_roles FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON actor_roles USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE actor_roles TO bpc_app;

-- actors --------------------------------------------------------------------------------------------------------
CREATE TABLE actors (
    tenant_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    type actor_type NOT NULL,
    display_name text NOT NULL,
    email text,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT actors_display_name_check CHECK ((display_name <> ''::text))
);
ALTER TABLE actors FORCE ROW LEVEL SECURITY;
ALTER TABLE actors ADD CONSTRAINT actors_email_key UNIQUE (tenant_id, email);
ALTER TABLE actors ADD CONSTRAINT actors_pkey PRIMARY KEY (tenant_id, actor_id);
ALTER TABLE actors ADD CONSTRAINT actors_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX actors_by_time ON actors USING btree (tenant_id, created_at, actor_id);
CREATE TRIGGER actors_renew_access AFTER DELETE OR UPDATE OF type, is_active ON actors FOR EACH ROW EXECUTE FUNCTION renew_access_version();
ALTER TABLE actors ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON actors FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON actors USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE actors TO bpc_app;
GRANT UPDATE(display_name) ON TABLE actors TO bpc_app;
GRANT UPDATE(email) ON TABLE actors TO bpc_app;
GRANT UPDATE(is_active) ON TABLE actors TO bpc_app;

-- api_key_prefixes ----------------------------------------------------------------------------------------------
CREATE TABLE api_key_prefixes (
    key_prefix text NOT NULL,
    tenant_id uuid NOT NULL
);
ALTER TABLE api_key_prefixes FORCE ROW LEVEL SECURITY;
ALTER TABLE api_key_prefixes ADD CONSTRAINT api_key_prefixes_of_tenant_key UNIQUE (tenant_id, key_prefix);
ALTER TABLE api_key_prefixes ADD CONSTRAINT api_key_prefixes_pkey PRIMARY KEY (key_prefix);
ALTER TABLE api_key_prefixes ADD CONSTRAINT api_key_prefixes_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE api_key_prefixes ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON api_key_prefixes FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON api_key_prefixes USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE api_key_prefixes TO bpc_app;

-- api_keys ------------------------------------------------------------------------------------------------------
CREATE TABLE api_keys (
    tenant_id uuid NOT NULL,
    api_key_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    key_prefix text NOT NULL,
    key_hash hash256 NOT NULL,
    label text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    pepper_id text
);
ALTER TABLE api_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_hash_key UNIQUE (tenant_id, key_hash);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, api_key_id);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_prefix_key UNIQUE (tenant_id, key_prefix);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_tenant_id_actor_id_fkey FOREIGN KEY (tenant_id, actor_id) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_tenant_id_key_prefix_fkey FOREIGN KEY (tenant_id, key_prefix) REFERENCES api_key_prefixes(tenant_id, key_prefix);
CREATE INDEX api_keys_by_time ON api_keys USING btree (tenant_id, created_at, api_key_id);
CREATE INDEX api_keys_of_actor ON api_keys USING btree (tenant_id, actor_id);
CREATE TRIGGER api_keys_hash_follows_pepper BEFORE UPDATE OF key_hash ON api_keys FOR EACH ROW WHEN ((((new.key_hash)::bytea IS DISTINCT FROM (old.key_hash)::bytea) AND ((new.pepper_id IS NULL) OR (NOT (new.pepper_id IS DISTINCT FROM old.pepper_id)) OR (old.revoked_at IS NOT NULL)))) EXECUTE FUNCTION refuse('the hash of an API key changes only with its pepper');
CREATE TRIGGER api_keys_renew_access AFTER DELETE OR UPDATE OF actor_id, key_prefix, key_hash, expires_at, revoked_at ON api_keys FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER api_keys_revoked_for_good BEFORE UPDATE OF revoked_at ON api_keys FOR EACH ROW WHEN (((old.revoked_at IS NOT NULL) AND (new.revoked_at IS DISTINCT FROM old.revoked_at))) EXECUTE FUNCTION refuse('a revoked API key stays revoked');
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON api_keys FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON api_keys USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE api_keys TO bpc_app;
GRANT UPDATE(key_hash) ON TABLE api_keys TO bpc_app;
GRANT UPDATE(label) ON TABLE api_keys TO bpc_app;
GRANT UPDATE(expires_at) ON TABLE api_keys TO bpc_app;
GRANT UPDATE(revoked_at) ON TABLE api_keys TO bpc_app;
GRANT UPDATE(last_used_at) ON TABLE api_keys TO bpc_app;
GRANT UPDATE(pepper_id) ON TABLE api_keys TO bpc_app;

-- approvals -----------------------------------------------------------------------------------------------------
CREATE TABLE approvals (
    tenant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    action text NOT NULL,
    permission text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    content_type text NOT NULL,
    body bytea NOT NULL,
    requested_by uuid NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    status text DEFAULT 'PENDING'::text NOT NULL,
    decided_by uuid,
    decided_at timestamp with time zone,
    CONSTRAINT approvals_by_another CHECK (((decided_by IS DISTINCT FROM requested_by) OR (status = 'REJECTED'::text))),
    CONSTRAINT approvals_decided CHECK (((status = 'PENDING'::text) = (decided_by IS NULL))),
    CONSTRAINT approvals_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'APPROVED'::text, 'REJECTED'::text])))
);
ALTER TABLE approvals FORCE ROW LEVEL SECURITY;
ALTER TABLE approvals ADD CONSTRAINT approvals_pkey PRIMARY KEY (tenant_id, approval_id);
ALTER TABLE approvals ADD CONSTRAINT approvals_tenant_id_decided_by_fkey FOREIGN KEY (tenant_id, decided_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE approvals ADD CONSTRAINT approvals_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE approvals ADD CONSTRAINT approvals_tenant_id_requested_by_fkey FOREIGN KEY (tenant_id, requested_by) REFERENCES actors(tenant_id, actor_id);
CREATE INDEX approvals_by_time ON approvals USING btree (tenant_id, requested_at, approval_id);
CREATE TRIGGER approvals_final BEFORE UPDATE ON approvals FOR EACH ROW WHEN ((old.status <> 'PENDING'::text)) EXECUTE FUNCTION refuse('a decided approval never changes');
CREATE TRIGGER approvals_never_deleted BEFORE DELETE ON approvals FOR EACH ROW EXECUTE FUNCTION refuse('an approval is never deleted');
CREATE TRIGGER approvals_not_truncated BEFORE TRUNCATE ON approvals FOR EACH STATEMENT EXECUTE FUNCTION refuse('approvals are never deleted');
ALTER TABLE approvals ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON approvals USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE approvals TO bpc_app;
GRANT UPDATE(status) ON TABLE approvals TO bpc_app;
GRANT UPDATE(decided_by) ON TABLE approvals TO bpc_app;
GRANT UPDATE(decided_at) ON TABLE approvals TO bpc_app;

-- attachment_withdrawals ----------------------------------------------------------------------------------------
CREATE TABLE attachment_withdrawals (
    tenant_id uuid NOT NULL,
    attachment_id uuid NOT NULL,
    reason text NOT NULL,
    withdrawn_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn_by uuid,
    CONSTRAINT attachment_withdrawals_reason_check CHECK ((reason <> ''::text))
);
ALTER TABLE attachment_withdrawals FORCE ROW LEVEL SECURITY;
ALTER TABLE attachment_withdrawals ADD CONSTRAINT attachment_withdrawals_pkey PRIMARY KEY (tenant_id, attachment_id);
ALTER TABLE attachment_withdrawals ADD CONSTRAINT attachment_withdrawals_tenant_id_attachment_id_fkey FOREIGN KEY (tenant_id, attachment_id) REFERENCES attachments(tenant_id, attachment_id);
ALTER TABLE attachment_withdrawals ADD CONSTRAINT attachment_withdrawals_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE attachment_withdrawals ADD CONSTRAINT attachment_withdrawals_tenant_id_withdrawn_by_fkey FOREIGN KEY (tenant_id, withdrawn_by) REFERENCES actors(tenant_id, actor_id);
CREATE TRIGGER attachment_withdrawals_never_change BEFORE DELETE OR UPDATE ON attachment_withdrawals FOR EACH ROW EXECUTE FUNCTION refuse('a withdrawal is never changed or deleted');
CREATE TRIGGER attachment_withdrawals_not_truncated BEFORE TRUNCATE ON attachment_withdrawals FOR EACH STATEMENT EXECUTE FUNCTION refuse('withdrawals are never deleted');
ALTER TABLE attachment_withdrawals ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON attachment_withdrawals USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE attachment_withdrawals TO bpc_app;

-- attachments ---------------------------------------------------------------------------------------------------
CREATE TABLE attachments (
    tenant_id uuid NOT NULL,
    attachment_id uuid NOT NULL,
    sku text NOT NULL,
    data_point integer NOT NULL,
    document_version_id uuid NOT NULL,
    title text,
    mime_type text NOT NULL,
    attached_at timestamp with time zone DEFAULT now() NOT NULL,
    attached_by uuid,
    CONSTRAINT attachments_data_point_check CHECK ((((data_point >= 40) AND (data_point <= 43)) OR ((data_point >= 47) AND (data_point <= 50)))),
    CONSTRAINT attachments_mime_type_check CHECK ((mime_type <> ''::text)),
    CONSTRAINT attachments_sku_check CHECK ((sku <> ''::text)),
    CONSTRAINT attachments_title_check CHECK ((title <> ''::text))
);
ALTER TABLE attachments FORCE ROW LEVEL SECURITY;
ALTER TABLE attachments ADD CONSTRAINT attachments_pkey PRIMARY KEY (tenant_id, attachment_id);
ALTER TABLE attachments ADD CONSTRAINT attachments_tenant_id_attached_by_fkey FOREIGN KEY (tenant_id, attached_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE attachments ADD CONSTRAINT attachments_tenant_id_document_version_id_fkey FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
ALTER TABLE attachments ADD CONSTRAINT attachments_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX attachments_by_time ON attachments USING btree (tenant_id, attached_at, attachment_id);
CREATE INDEX attachments_of_product ON attachments USING btree (tenant_id, sku, attached_at, attachment_id);
CREATE INDEX attachments_of_version ON attachments USING btree (tenant_id, document_version_id);
CREATE TRIGGER attachments_never_change BEFORE DELETE OR UPDATE ON attachments FOR EACH ROW EXECUTE FUNCTION refuse('an attachment is never changed or deleted');
CREATE TRIGGER attachments_not_truncated BEFORE TRUNCATE ON attachments FOR EACH STATEMENT EXECUTE FUNCTION refuse('attachments are never deleted');
ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON attachments USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE attachments TO bpc_app;

-- batch_passport_versions ---------------------------------------------------------------------------------------
CREATE TABLE batch_passport_versions (
    tenant_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    battery_batch_id uuid NOT NULL,
    model_version_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    model_receipt_hash bytea NOT NULL,
    dsl_sha256 bytea NOT NULL,
    compiler_build_id text NOT NULL,
    signing_key_id text NOT NULL,
    secret text NOT NULL,
    facts bytea NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    requested_by uuid,
    content bytea,
    signature bytea,
    receipt_hash bytea,
    fail_count integer,
    warn_count integer,
    refusal text,
    ended_at timestamp with time zone,
    CONSTRAINT batch_passport_versions_compiler_build_id_check CHECK ((compiler_build_id <> ''::text)),
    CONSTRAINT batch_passport_versions_dsl_sha256_check CHECK ((octet_length(dsl_sha256) = 32)),
    CONSTRAINT batch_passport_versions_facts_check CHECK ((octet_length(facts) > 0)),
    CONSTRAINT batch_passport_versions_fail_count_check CHECK ((fail_count >= 0)),
    CONSTRAINT batch_passport_versions_model_receipt_hash_check CHECK ((octet_length(model_receipt_hash) = 32)),
    CONSTRAINT batch_passport_versions_receipt_hash_check CHECK ((octet_length(receipt_hash) = 32)),
    CONSTRAINT batch_passport_versions_refusal_check CHECK ((refusal <> ''::text)),
    CONSTRAINT batch_passport_versions_secret_check CHECK ((secret <> ''::text)),
    CONSTRAINT batch_passport_versions_signature_check CHECK ((octet_length(signature) = 64)),
    CONSTRAINT batch_passport_versions_signing_key_id_check CHECK ((signing_key_id <> ''::text)),
    CONSTRAINT batch_passport_versions_warn_count_check CHECK ((warn_count >= 0)),
    CONSTRAINT batch_passport_versions_whole CHECK (
CASE
    WHEN (ended_at IS NULL) THEN (num_nonnulls(content, signature, receipt_hash, fail_count, warn_count, refusal) = 0)
    ELSE (num_nonnulls(content, signature, receipt_hash, fail_count, warn_count) =
    CASE
        WHEN (refusal IS NULL) THEN 5
        ELSE 0
    END)
END)
);
ALTER TABLE batch_passport_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_pkey PRIMARY KEY (tenant_id, passport_version_id);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_time_key UNIQUE (tenant_id, battery_batch_id, requested_at);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_tenant_id_battery_batch_id_fkey FOREIGN KEY (tenant_id, battery_batch_id) REFERENCES battery_batches(tenant_id, battery_batch_id);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_tenant_id_model_version_id_fkey FOREIGN KEY (tenant_id, model_version_id) REFERENCES passport_versions(tenant_id, passport_version_id);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_tenant_id_requested_by_fkey FOREIGN KEY (tenant_id, requested_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE batch_passport_versions ADD CONSTRAINT batch_passport_versions_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
CREATE INDEX batch_passport_versions_of_model ON batch_passport_versions USING btree (tenant_id, model_version_id);
CREATE TRIGGER batch_passport_versions_frozen BEFORE UPDATE OF tenant_id, passport_version_id, battery_batch_id, model_version_id, rule_package_version_id, model_receipt_hash, dsl_sha256, compiler_build_id, signing_key_id, secret, facts, requested_at, requested_by ON batch_passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('what the passport of a batch was asked for never changes');
CREATE TRIGGER batch_passport_versions_issued_once BEFORE UPDATE ON batch_passport_versions FOR EACH ROW WHEN ((old.ended_at IS NOT NULL)) EXECUTE FUNCTION refuse('the passport of a batch is issued once');
CREATE TRIGGER batch_passport_versions_not_truncated BEFORE TRUNCATE ON batch_passport_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('passports of batches are never deleted');
CREATE TRIGGER batch_passport_versions_stay BEFORE DELETE ON batch_passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('the passport of a batch is never deleted');
ALTER TABLE batch_passport_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON batch_passport_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(content) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(signature) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(receipt_hash) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(fail_count) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(warn_count) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(refusal) ON TABLE batch_passport_versions TO bpc_app;
GRANT UPDATE(ended_at) ON TABLE batch_passport_versions TO bpc_app;

-- batteries -----------------------------------------------------------------------------------------------------
CREATE TABLE batteries (
    tenant_id uuid NOT NULL,
    battery_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    registration_id uuid NOT NULL,
    battery_batch_id uuid,
    registered_at timestamp with time zone NOT NULL,
    ceased_at timestamp with time zone,
    leaf_number integer NOT NULL,
    manufactured_on date,
    placed_on date,
    serial_number text NOT NULL,
    status text DEFAULT 'original'::text NOT NULL,
    plant text,
    link text,
    successor text,
    predecessor text,
    CONSTRAINT batteries_ceased CHECK (((ceased_at IS NULL) OR (status = 'waste'::text))),
    CONSTRAINT batteries_leaf_number_check CHECK ((leaf_number >= 0)),
    CONSTRAINT batteries_link_check CHECK ((link <> ''::text)),
    CONSTRAINT batteries_other_life CHECK (((status = ANY (ARRAY['original'::text, 'waste'::text])) OR (successor IS NOT NULL) OR (predecessor IS NOT NULL))),
    CONSTRAINT batteries_plant_check CHECK ((plant <> ''::text)),
    CONSTRAINT batteries_predecessor_check CHECK ((predecessor <> ''::text)),
    CONSTRAINT batteries_serial_number_check CHECK ((serial_number <> ''::text)),
    CONSTRAINT batteries_status_check CHECK ((status = ANY (ARRAY['original'::text, 're-used'::text, 'repurposed'::text, 'remanufactured'::text, 'waste'::text]))),
    CONSTRAINT batteries_successor_check CHECK ((successor <> ''::text))
);
ALTER TABLE batteries FORCE ROW LEVEL SECURITY;
ALTER TABLE batteries ADD CONSTRAINT batteries_pkey PRIMARY KEY (battery_id, tenant_id);
ALTER TABLE batteries ADD CONSTRAINT batteries_serial_key UNIQUE (tenant_id, serial_number, battery_product_id);
ALTER TABLE batteries ADD CONSTRAINT batteries_tenant_id_battery_batch_id_fkey FOREIGN KEY (tenant_id, battery_batch_id) REFERENCES battery_batches(tenant_id, battery_batch_id);
ALTER TABLE batteries ADD CONSTRAINT batteries_tenant_id_battery_product_id_fkey FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products(tenant_id, battery_product_id);
ALTER TABLE batteries ADD CONSTRAINT batteries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE batteries ADD CONSTRAINT batteries_tenant_id_registration_id_fkey FOREIGN KEY (tenant_id, registration_id) REFERENCES battery_registrations(tenant_id, registration_id);
CREATE INDEX batteries_by_time ON batteries USING btree (tenant_id, registered_at, battery_id);
CREATE UNIQUE INDEX batteries_link_key ON batteries USING btree (link, tenant_id) WHERE (link IS NOT NULL);
CREATE INDEX batteries_not_original ON batteries USING btree (tenant_id, status, registered_at, battery_id) WHERE (status <> 'original'::text);
CREATE INDEX batteries_of_product ON batteries USING btree (tenant_id, battery_product_id, registered_at, battery_id);
CREATE TRIGGER batteries_identity_stays BEFORE UPDATE ON batteries FOR EACH ROW WHEN (((old.ceased_at IS NOT NULL) OR (old.successor IS NOT NULL) OR ((old.placed_on IS NOT NULL) AND (new.placed_on IS DISTINCT FROM old.placed_on)) OR ((((((((((((old.tenant_id IS DISTINCT FROM new.tenant_id) OR (old.battery_id IS DISTINCT FROM new.battery_id)) OR (old.battery_product_id IS DISTINCT FROM new.battery_product_id)) OR (old.registration_id IS DISTINCT FROM new.registration_id)) OR (old.battery_batch_id IS DISTINCT FROM new.battery_batch_id)) OR (old.registered_at IS DISTINCT FROM new.registered_at)) OR (old.leaf_number IS DISTINCT FROM new.leaf_number)) OR (old.manufactured_on IS DISTINCT FROM new.manufactured_on)) OR (old.serial_number IS DISTINCT FROM new.serial_number)) OR (old.plant IS DISTINCT FROM new.plant)) OR (old.link IS DISTINCT FROM new.link)) OR (old.predecessor IS DISTINCT FROM new.predecessor)))) EXECUTE FUNCTION refuse('what a battery is never changes, and its end is final');
CREATE TRIGGER batteries_never_deleted BEFORE DELETE ON batteries FOR EACH ROW EXECUTE FUNCTION refuse('a battery is never deleted');
CREATE TRIGGER batteries_not_truncated BEFORE TRUNCATE ON batteries FOR EACH STATEMENT EXECUTE FUNCTION refuse('batteries are never deleted');
CREATE TRIGGER batteries_status_steps BEFORE UPDATE OF status ON batteries FOR EACH ROW WHEN (((old.status <> new.status) AND
        CASE old.status
            WHEN 'waste'::text THEN (new.status = 'original'::text)
            ELSE (new.status <> 'waste'::text)
        END)) EXECUTE FUNCTION refuse('a battery becomes waste, and only waste gets another life');
ALTER TABLE batteries ENABLE ROW LEVEL SECURITY;
CREATE POLICY address_lookup ON batteries FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON batteries USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE batteries TO bpc_app;
GRANT UPDATE(ceased_at) ON TABLE batteries TO bpc_app;
GRANT UPDATE(placed_on) ON TABLE batteries TO bpc_app;
GRANT UPDATE(status) ON TABLE batteries TO bpc_app;
GRANT UPDATE(successor) ON TABLE batteries TO bpc_app;

-- battery_batches -----------------------------------------------------------------------------------------------
CREATE TABLE battery_batches (
    tenant_id uuid NOT NULL,
    battery_batch_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    batch_number text NOT NULL,
    plant text,
    manufactured_on date,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT battery_batches_batch_number_check CHECK ((batch_number <> ''::text)),
    CONSTRAINT battery_batches_plant_check CHECK ((plant <> ''::text))
);
ALTER TABLE battery_batches FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_batches ADD CONSTRAINT battery_batches_number_key UNIQUE (tenant_id, battery_product_id, batch_number);
ALTER TABLE battery_batches ADD CONSTRAINT battery_batches_pkey PRIMARY KEY (tenant_id, battery_batch_id);
ALTER TABLE battery_batches ADD CONSTRAINT battery_batches_tenant_id_battery_product_id_fkey FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products(tenant_id, battery_product_id);
ALTER TABLE battery_batches ADD CONSTRAINT battery_batches_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX battery_batches_by_time ON battery_batches USING btree (tenant_id, created_at, battery_batch_id);
CREATE TRIGGER battery_batches_never_change BEFORE DELETE OR UPDATE ON battery_batches FOR EACH ROW EXECUTE FUNCTION refuse('a batch is never changed or deleted');
CREATE TRIGGER battery_batches_not_truncated BEFORE TRUNCATE ON battery_batches FOR EACH STATEMENT EXECUTE FUNCTION refuse('batches are never deleted');
ALTER TABLE battery_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY address_lookup ON battery_batches FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON battery_batches USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_batches TO bpc_app;

-- battery_changes -----------------------------------------------------------------------------------------------
CREATE TABLE battery_changes (
    tenant_id uuid NOT NULL,
    battery_id uuid NOT NULL,
    number integer NOT NULL,
    kind text NOT NULL,
    status text NOT NULL,
    effective_on date NOT NULL,
    said jsonb NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by uuid,
    CONSTRAINT battery_changes_kind_check CHECK ((kind = ANY (ARRAY['PLACED'::text, 'REPAIRED'::text, 'WASTE'::text, 'RECYCLED'::text, 'SUCCEEDED'::text, 'BEGUN'::text]))),
    CONSTRAINT battery_changes_number_check CHECK ((number > 0)),
    CONSTRAINT battery_changes_status_check CHECK ((status = ANY (ARRAY['original'::text, 're-used'::text, 'repurposed'::text, 'remanufactured'::text, 'waste'::text])))
);
ALTER TABLE battery_changes FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_changes ADD CONSTRAINT battery_changes_pkey PRIMARY KEY (tenant_id, battery_id, number);
ALTER TABLE battery_changes ADD CONSTRAINT battery_changes_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE battery_changes ADD CONSTRAINT battery_changes_tenant_id_changed_by_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE battery_changes ADD CONSTRAINT battery_changes_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE TRIGGER battery_changes_never_change BEFORE DELETE OR UPDATE ON battery_changes FOR EACH ROW EXECUTE FUNCTION refuse('a change of a battery is never changed or deleted');
CREATE TRIGGER battery_changes_not_truncated BEFORE TRUNCATE ON battery_changes FOR EACH STATEMENT EXECUTE FUNCTION refuse('changes of batteries are never deleted');
ALTER TABLE battery_changes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_changes USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_changes TO bpc_app;

-- battery_identifications ---------------------------------------------------------------------------------------
CREATE TABLE battery_identifications (
    tenant_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    granularity text NOT NULL,
    scheme text NOT NULL,
    gtin text,
    base_url text,
    operator_scheme text,
    operator_id text,
    fixed_at timestamp with time zone,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT battery_identifications_base_url_check CHECK ((base_url <> ''::text)),
    CONSTRAINT battery_identifications_granularity_check CHECK ((granularity = ANY (ARRAY['MODEL'::text, 'BATCH'::text, 'ITEM'::text]))),
    CONSTRAINT battery_identifications_gtin_check CHECK ((gtin ~ '^[0-9]{14}$'::text)),
    CONSTRAINT battery_identifications_operator CHECK (((operator_scheme IS NULL) = (operator_id IS NULL))),
    CONSTRAINT battery_identifications_operator_id_check CHECK ((operator_id <> ''::text)),
    CONSTRAINT battery_identifications_operator_scheme_check CHECK ((operator_scheme = ANY (ARRAY['GLN'::text, 'EORI'::text, 'VAT'::text, 'LEI'::text]))),
    CONSTRAINT battery_identifications_scheme_check CHECK ((scheme = ANY (ARRAY['GS1'::text, 'OWN'::text, 'IEC61406'::text]))),
    CONSTRAINT battery_identifications_with_gtin CHECK (((scheme = 'GS1'::text) = (gtin IS NOT NULL)))
);
ALTER TABLE battery_identifications FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_identifications ADD CONSTRAINT battery_identifications_gtin_key UNIQUE (tenant_id, gtin);
ALTER TABLE battery_identifications ADD CONSTRAINT battery_identifications_pkey PRIMARY KEY (tenant_id, battery_product_id);
ALTER TABLE battery_identifications ADD CONSTRAINT battery_identifications_tenant_id_battery_product_id_fkey FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products(tenant_id, battery_product_id);
ALTER TABLE battery_identifications ADD CONSTRAINT battery_identifications_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX battery_identifications_by_gtin ON battery_identifications USING btree (gtin) WHERE (gtin IS NOT NULL);
CREATE TRIGGER battery_identifications_fixed BEFORE UPDATE ON battery_identifications FOR EACH ROW WHEN (((old.fixed_at IS NOT NULL) AND (((((old.granularity IS DISTINCT FROM new.granularity) OR (old.scheme IS DISTINCT FROM new.scheme)) OR (old.gtin IS DISTINCT FROM new.gtin)) OR (old.base_url IS DISTINCT FROM new.base_url)) OR (old.fixed_at IS DISTINCT FROM new.fixed_at)))) EXECUTE FUNCTION refuse('how batteries are identified stays the same once one is on the market');
ALTER TABLE battery_identifications ENABLE ROW LEVEL SECURITY;
CREATE POLICY address_lookup ON battery_identifications FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON battery_identifications USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(granularity) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(scheme) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(gtin) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(base_url) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(operator_scheme) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(operator_id) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(fixed_at) ON TABLE battery_identifications TO bpc_app;
GRANT UPDATE(changed_at) ON TABLE battery_identifications TO bpc_app;

-- battery_products ----------------------------------------------------------------------------------------------
CREATE TABLE battery_products (
    tenant_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    sku text NOT NULL,
    name text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT battery_products_name_check CHECK ((name <> ''::text)),
    CONSTRAINT battery_products_sku_check CHECK ((sku <> ''::text))
);
ALTER TABLE battery_products FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_products ADD CONSTRAINT battery_products_pkey PRIMARY KEY (tenant_id, battery_product_id);
ALTER TABLE battery_products ADD CONSTRAINT battery_products_sku_key UNIQUE (tenant_id, sku);
ALTER TABLE battery_products ADD CONSTRAINT battery_products_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX battery_products_by_text ON battery_products USING gin (search_grams(tenant_id, ((sku || ' '::text) || name), 2));
CREATE INDEX battery_products_by_time ON battery_products USING btree (tenant_id, created_at, battery_product_id);
CREATE INDEX battery_products_inactive ON battery_products USING btree (tenant_id, created_at, battery_product_id) WHERE (NOT is_active);
ALTER TABLE battery_products ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_products USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY text_search ON battery_products FOR SELECT TO bpc_owner USING (true);
GRANT SELECT,INSERT ON TABLE battery_products TO bpc_app;
GRANT UPDATE(name) ON TABLE battery_products TO bpc_app;
GRANT UPDATE(is_active) ON TABLE battery_products TO bpc_app;

-- battery_readings ----------------------------------------------------------------------------------------------
CREATE TABLE battery_readings (
    tenant_id uuid NOT NULL,
    battery_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL,
    revision smallint NOT NULL,
    kind text NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
)
PARTITION BY HASH (battery_id);
ALTER TABLE battery_readings FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_readings ADD CONSTRAINT battery_readings_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER TABLE battery_readings ADD CONSTRAINT battery_readings_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE battery_readings ADD CONSTRAINT battery_readings_tenant_id_delivery_id_fkey FOREIGN KEY (tenant_id, delivery_id) REFERENCES reading_deliveries(tenant_id, delivery_id);
ALTER TABLE battery_readings ADD CONSTRAINT battery_readings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE TRIGGER battery_readings_never_change BEFORE DELETE OR UPDATE ON battery_readings FOR EACH ROW EXECUTE FUNCTION refuse('a reading is never changed or deleted');
CREATE TRIGGER battery_readings_not_truncated BEFORE TRUNCATE ON battery_readings FOR EACH STATEMENT EXECUTE FUNCTION refuse('readings are never deleted');
ALTER TABLE battery_readings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_readings USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_readings TO bpc_app;

-- battery_readings_0 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_0 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_0 FOR VALUES WITH (modulus 8, remainder 0);
ALTER TABLE battery_readings_0 ADD CONSTRAINT battery_readings_0_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_0_pkey;

-- battery_readings_1 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_1 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_1 FOR VALUES WITH (modulus 8, remainder 1);
ALTER TABLE battery_readings_1 ADD CONSTRAINT battery_readings_1_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_1_pkey;

-- battery_readings_2 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_2 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_2 FOR VALUES WITH (modulus 8, remainder 2);
ALTER TABLE battery_readings_2 ADD CONSTRAINT battery_readings_2_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_2_pkey;

-- battery_readings_3 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_3 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_3 FOR VALUES WITH (modulus 8, remainder 3);
ALTER TABLE battery_readings_3 ADD CONSTRAINT battery_readings_3_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_3_pkey;

-- battery_readings_4 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_4 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_4 FOR VALUES WITH (modulus 8, remainder 4);
ALTER TABLE battery_readings_4 ADD CONSTRAINT battery_readings_4_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_4_pkey;

-- battery_readings_5 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_5 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_5 FOR VALUES WITH (modulus 8, remainder 5);
ALTER TABLE battery_readings_5 ADD CONSTRAINT battery_readings_5_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_5_pkey;

-- battery_readings_6 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_6 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_6 FOR VALUES WITH (modulus 8, remainder 6);
ALTER TABLE battery_readings_6 ADD CONSTRAINT battery_readings_6_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_6_pkey;

-- battery_readings_7 --------------------------------------------------------------------------------------------
CREATE TABLE battery_readings_7 (
    tenant_id uuid CONSTRAINT battery_readings_tenant_id_not_null NOT NULL,
    battery_id uuid CONSTRAINT battery_readings_battery_id_not_null NOT NULL,
    delivery_id uuid CONSTRAINT battery_readings_delivery_id_not_null NOT NULL,
    recorded_at timestamp with time zone CONSTRAINT battery_readings_recorded_at_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT battery_readings_received_at_not_null NOT NULL,
    revision smallint CONSTRAINT battery_readings_revision_not_null NOT NULL,
    kind text CONSTRAINT battery_readings_kind_not_null NOT NULL,
    number numeric(30,6),
    text text,
    CONSTRAINT battery_readings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT battery_readings_revision_check CHECK ((revision >= 0)),
    CONSTRAINT battery_readings_value CHECK ((num_nonnulls(number, text) = 1))
);
ALTER TABLE battery_readings ATTACH PARTITION battery_readings_7 FOR VALUES WITH (modulus 8, remainder 7);
ALTER TABLE battery_readings_7 ADD CONSTRAINT battery_readings_7_pkey PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision);
ALTER INDEX battery_readings_pkey ATTACH PARTITION battery_readings_7_pkey;

-- battery_registrations -----------------------------------------------------------------------------------------
CREATE TABLE battery_registrations (
    tenant_id uuid NOT NULL,
    registration_id uuid NOT NULL,
    total integer NOT NULL,
    root bytea NOT NULL,
    leaf_hashes bytea NOT NULL,
    registered_at timestamp with time zone NOT NULL,
    registered_by uuid,
    CONSTRAINT battery_registrations_check CHECK ((octet_length(leaf_hashes) = (32 * total))),
    CONSTRAINT battery_registrations_root_check CHECK ((octet_length(root) = 32)),
    CONSTRAINT battery_registrations_total_check CHECK ((total > 0))
);
ALTER TABLE battery_registrations ALTER COLUMN leaf_hashes SET STORAGE EXTERNAL;
ALTER TABLE battery_registrations FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_registrations ADD CONSTRAINT battery_registrations_pkey PRIMARY KEY (tenant_id, registration_id);
ALTER TABLE battery_registrations ADD CONSTRAINT battery_registrations_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE battery_registrations ADD CONSTRAINT battery_registrations_tenant_id_registered_by_fkey FOREIGN KEY (tenant_id, registered_by) REFERENCES actors(tenant_id, actor_id);
CREATE TRIGGER battery_registrations_never_change BEFORE DELETE OR UPDATE ON battery_registrations FOR EACH ROW EXECUTE FUNCTION refuse('a registration is never changed or deleted');
CREATE TRIGGER battery_registrations_not_truncated BEFORE TRUNCATE ON battery_registrations FOR EACH STATEMENT EXECUTE FUNCTION refuse('registrations are never deleted');
ALTER TABLE battery_registrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_registrations USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_registrations TO bpc_app;

-- battery_transfers ---------------------------------------------------------------------------------------------
CREATE TABLE battery_transfers (
    tenant_id uuid NOT NULL,
    transfer_id uuid NOT NULL,
    side text NOT NULL,
    other_tenant_id uuid NOT NULL,
    state text NOT NULL,
    battery_id uuid,
    offer bytea NOT NULL,
    acceptance bytea,
    entry bytea,
    gives_statement bytea,
    takes_statement bytea,
    offered_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    ended_at timestamp with time zone,
    reason text,
    CONSTRAINT battery_transfers_accepted CHECK ((((acceptance IS NULL) = (accepted_at IS NULL)) AND
CASE state
    WHEN 'OFFERED'::text THEN (acceptance IS NULL)
    WHEN 'EXPIRED'::text THEN (acceptance IS NULL)
    WHEN 'ACCEPTED'::text THEN (acceptance IS NOT NULL)
    WHEN 'COMPLETED'::text THEN (acceptance IS NOT NULL)
    ELSE true
END)),
    CONSTRAINT battery_transfers_answered CHECK (((side = 'GIVES'::text) OR (state <> 'OFFERED'::text))),
    CONSTRAINT battery_transfers_check CHECK ((expires_at > offered_at)),
    CONSTRAINT battery_transfers_ended CHECK (((state = ANY (ARRAY['OFFERED'::text, 'ACCEPTED'::text])) = (ended_at IS NULL))),
    CONSTRAINT battery_transfers_given CHECK (((side = 'TAKES'::text) OR ((battery_id IS NOT NULL) AND (entry IS NULL)))),
    CONSTRAINT battery_transfers_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT battery_transfers_side_check CHECK ((side = ANY (ARRAY['GIVES'::text, 'TAKES'::text]))),
    CONSTRAINT battery_transfers_signed CHECK ((((state = 'COMPLETED'::text) = (gives_statement IS NOT NULL)) AND ((gives_statement IS NULL) = (takes_statement IS NULL)) AND ((state <> 'COMPLETED'::text) OR (battery_id IS NOT NULL)))),
    CONSTRAINT battery_transfers_state_check CHECK ((state = ANY (ARRAY['OFFERED'::text, 'ACCEPTED'::text, 'COMPLETED'::text, 'DECLINED'::text, 'WITHDRAWN'::text, 'EXPIRED'::text]))),
    CONSTRAINT battery_transfers_two_tenants CHECK ((other_tenant_id <> tenant_id))
);
ALTER TABLE battery_transfers FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_transfers ADD CONSTRAINT battery_transfers_pkey PRIMARY KEY (tenant_id, transfer_id);
ALTER TABLE battery_transfers ADD CONSTRAINT battery_transfers_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE battery_transfers ADD CONSTRAINT battery_transfers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX battery_transfers_by_time ON battery_transfers USING btree (tenant_id, offered_at, transfer_id);
CREATE INDEX battery_transfers_incoming ON battery_transfers USING btree (other_tenant_id, offered_at, transfer_id) WHERE ((side = 'GIVES'::text) AND (state = 'OFFERED'::text));
CREATE UNIQUE INDEX battery_transfers_one_at_a_time ON battery_transfers USING btree (tenant_id, battery_id) WHERE ((side = 'GIVES'::text) AND (state = ANY (ARRAY['OFFERED'::text, 'ACCEPTED'::text])));
CREATE TRIGGER battery_transfers_final BEFORE UPDATE ON battery_transfers FOR EACH ROW WHEN (((old.ended_at IS NOT NULL) OR ((old.accepted_at IS NOT NULL) AND (new.state = 'OFFERED'::text)) OR ((old.accepted_at IS NOT NULL) AND ((old.acceptance IS DISTINCT FROM new.acceptance) OR (old.accepted_at IS DISTINCT FROM new.accepted_at))) OR ((old.side = 'GIVES'::text) AND (old.battery_id IS DISTINCT FROM new.battery_id)) OR ((((((((old.tenant_id IS DISTINCT FROM new.tenant_id) OR (old.transfer_id IS DISTINCT FROM new.transfer_id)) OR (old.side IS DISTINCT FROM new.side)) OR (old.other_tenant_id IS DISTINCT FROM new.other_tenant_id)) OR (old.offer IS DISTINCT FROM new.offer)) OR (old.entry IS DISTINCT FROM new.entry)) OR (old.offered_at IS DISTINCT FROM new.offered_at)) OR (old.expires_at IS DISTINCT FROM new.expires_at)))) EXECUTE FUNCTION refuse('what was offered and accepted never changes, and the end of a transfer is final');
CREATE TRIGGER battery_transfers_never_deleted BEFORE DELETE ON battery_transfers FOR EACH ROW EXECUTE FUNCTION refuse('a transfer is never deleted');
CREATE TRIGGER battery_transfers_not_truncated BEFORE TRUNCATE ON battery_transfers FOR EACH STATEMENT EXECUTE FUNCTION refuse('transfers are never deleted');
ALTER TABLE battery_transfers ENABLE ROW LEVEL SECURITY;
CREATE POLICY offers_to_others ON battery_transfers FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON battery_transfers USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(state) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(battery_id) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(acceptance) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(gives_statement) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(takes_statement) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(accepted_at) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(ended_at) ON TABLE battery_transfers TO bpc_app;
GRANT UPDATE(reason) ON TABLE battery_transfers TO bpc_app;

-- column_mappings -----------------------------------------------------------------------------------------------
CREATE TABLE column_mappings (
    tenant_id uuid NOT NULL,
    supplier_id uuid NOT NULL,
    kind document_kind NOT NULL,
    version integer NOT NULL,
    mapping jsonb NOT NULL,
    accepted_at timestamp with time zone DEFAULT now() NOT NULL,
    accepted_by uuid,
    CONSTRAINT column_mappings_version_check CHECK ((version >= 1))
);
ALTER TABLE column_mappings FORCE ROW LEVEL SECURITY;
ALTER TABLE column_mappings ADD CONSTRAINT column_mappings_pkey PRIMARY KEY (tenant_id, supplier_id, kind, version);
ALTER TABLE column_mappings ADD CONSTRAINT column_mappings_tenant_id_accepted_by_fkey FOREIGN KEY (tenant_id, accepted_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE column_mappings ADD CONSTRAINT column_mappings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE column_mappings ADD CONSTRAINT column_mappings_tenant_id_supplier_id_fkey FOREIGN KEY (tenant_id, supplier_id) REFERENCES suppliers(tenant_id, supplier_id);
CREATE TRIGGER column_mappings_never_change BEFORE DELETE OR UPDATE ON column_mappings FOR EACH ROW EXECUTE FUNCTION refuse('a column mapping is never changed or deleted');
CREATE TRIGGER column_mappings_not_truncated BEFORE TRUNCATE ON column_mappings FOR EACH STATEMENT EXECUTE FUNCTION refuse('column mappings are never deleted');
ALTER TABLE column_mappings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON column_mappings USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE column_mappings TO bpc_app;

-- compile_run_rows ----------------------------------------------------------------------------------------------
CREATE TABLE compile_run_rows (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    row_number integer NOT NULL,
    sku text NOT NULL,
    name text,
    snapshot_id uuid,
    activate boolean NOT NULL,
    passport_version_id uuid,
    problem_code text,
    problem_message text,
    is_unchanged boolean DEFAULT false NOT NULL,
    CONSTRAINT compile_run_rows_name_check CHECK ((name <> ''::text)),
    CONSTRAINT compile_run_rows_problem_whole CHECK (((problem_code IS NULL) = (problem_message IS NULL))),
    CONSTRAINT compile_run_rows_row_number_check CHECK ((row_number > 0)),
    CONSTRAINT compile_run_rows_sku_check CHECK ((sku <> ''::text))
);
ALTER TABLE compile_run_rows FORCE ROW LEVEL SECURITY;
ALTER TABLE compile_run_rows ADD CONSTRAINT compile_run_rows_pkey PRIMARY KEY (tenant_id, run_id, row_number);
ALTER TABLE compile_run_rows ADD CONSTRAINT compile_run_rows_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE compile_run_rows ADD CONSTRAINT compile_run_rows_tenant_id_run_id_fkey FOREIGN KEY (tenant_id, run_id) REFERENCES compile_runs(tenant_id, run_id);
CREATE INDEX compile_run_rows_of_product ON compile_run_rows USING btree (tenant_id, sku, run_id);
CREATE TRIGGER compile_run_rows_begun_once BEFORE UPDATE OF passport_version_id, problem_code, problem_message ON compile_run_rows FOR EACH ROW WHEN ((old.passport_version_id IS NOT NULL)) EXECUTE FUNCTION refuse('a row asks for one version');
CREATE TRIGGER compile_run_rows_frozen BEFORE UPDATE OF tenant_id, run_id, row_number, sku, name, snapshot_id, activate ON compile_run_rows FOR EACH ROW EXECUTE FUNCTION refuse('what a row was asked for never changes');
CREATE TRIGGER compile_run_rows_not_truncated BEFORE TRUNCATE ON compile_run_rows FOR EACH STATEMENT EXECUTE FUNCTION refuse('rows of runs are never deleted');
CREATE TRIGGER compile_run_rows_stay BEFORE DELETE ON compile_run_rows FOR EACH ROW EXECUTE FUNCTION refuse('a row of a run is never deleted');
CREATE TRIGGER compile_run_rows_unchanged_once BEFORE UPDATE OF is_unchanged ON compile_run_rows FOR EACH ROW WHEN ((old.passport_version_id IS NOT NULL)) EXECUTE FUNCTION refuse('a row asks for one version');
ALTER TABLE compile_run_rows ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON compile_run_rows USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE compile_run_rows TO bpc_app;
GRANT UPDATE(passport_version_id) ON TABLE compile_run_rows TO bpc_app;
GRANT UPDATE(problem_code) ON TABLE compile_run_rows TO bpc_app;
GRANT UPDATE(problem_message) ON TABLE compile_run_rows TO bpc_app;
GRANT UPDATE(is_unchanged) ON TABLE compile_run_rows TO bpc_app;

-- compile_runs --------------------------------------------------------------------------------------------------
CREATE TABLE compile_runs (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    activate boolean NOT NULL,
    total integer NOT NULL,
    batch_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    cancelled_at timestamp with time zone,
    skip_unchanged boolean DEFAULT false NOT NULL,
    is_open boolean DEFAULT false NOT NULL,
    CONSTRAINT compile_runs_total_check CHECK ((total > 0))
);
ALTER TABLE compile_runs FORCE ROW LEVEL SECURITY;
ALTER TABLE compile_runs ADD CONSTRAINT compile_runs_pkey PRIMARY KEY (tenant_id, run_id);
ALTER TABLE compile_runs ADD CONSTRAINT compile_runs_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE compile_runs ADD CONSTRAINT compile_runs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE compile_runs ADD CONSTRAINT compile_runs_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
CREATE INDEX compile_runs_by_time ON compile_runs USING btree (tenant_id, created_at, run_id);
CREATE INDEX compile_runs_cancelled ON compile_runs USING btree (tenant_id, created_at, run_id) WHERE (cancelled_at IS NOT NULL);
CREATE INDEX compile_runs_open ON compile_runs USING btree (tenant_id, created_at, run_id) WHERE is_open;
CREATE TRIGGER compile_runs_cancelled_once BEFORE UPDATE OF cancelled_at ON compile_runs FOR EACH ROW WHEN ((old.cancelled_at IS NOT NULL)) EXECUTE FUNCTION refuse('a run is cancelled once');
CREATE TRIGGER compile_runs_closed_once BEFORE UPDATE OF is_open ON compile_runs FOR EACH ROW WHEN ((NOT old.is_open)) EXECUTE FUNCTION refuse('the end of a run is recorded once');
CREATE TRIGGER compile_runs_frozen BEFORE UPDATE OF tenant_id, run_id, rule_package_version_id, activate, total, batch_id, created_at, created_by ON compile_runs FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER compile_runs_not_truncated BEFORE TRUNCATE ON compile_runs FOR EACH STATEMENT EXECUTE FUNCTION refuse('runs are never deleted');
CREATE TRIGGER compile_runs_skipping_frozen BEFORE UPDATE OF skip_unchanged ON compile_runs FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER compile_runs_stay BEFORE DELETE ON compile_runs FOR EACH ROW EXECUTE FUNCTION refuse('a run is never deleted');
ALTER TABLE compile_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON compile_runs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE compile_runs TO bpc_app;
GRANT UPDATE(cancelled_at) ON TABLE compile_runs TO bpc_app;
GRANT UPDATE(is_open) ON TABLE compile_runs TO bpc_app;

-- console_sessions ----------------------------------------------------------------------------------------------
CREATE TABLE console_sessions (
    tenant_id uuid NOT NULL,
    session_id uuid NOT NULL,
    actor_id uuid NOT NULL,
    secret_hash bytea NOT NULL,
    sign_in text NOT NULL,
    link_hash bytea,
    device text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    last_used_at timestamp with time zone,
    issuer text,
    roles_read_at timestamp with time zone,
    reading_since timestamp with time zone,
    provider_tokens text,
    CONSTRAINT console_sessions_device_check CHECK (((length(device) >= 1) AND (length(device) <= 100))),
    CONSTRAINT console_sessions_link CHECK (((sign_in <> 'LINK'::text) OR (link_hash IS NOT NULL))),
    CONSTRAINT console_sessions_link_hash_check CHECK ((octet_length(link_hash) = 32)),
    CONSTRAINT console_sessions_secret_hash_check CHECK ((octet_length(secret_hash) = 32)),
    CONSTRAINT console_sessions_sign_in_check CHECK ((sign_in = ANY (ARRAY['LINK'::text, 'OIDC'::text])))
);
ALTER TABLE console_sessions FORCE ROW LEVEL SECURITY;
ALTER TABLE console_sessions ADD CONSTRAINT console_sessions_link_key UNIQUE (tenant_id, link_hash);
ALTER TABLE console_sessions ADD CONSTRAINT console_sessions_pkey PRIMARY KEY (tenant_id, session_id);
ALTER TABLE console_sessions ADD CONSTRAINT console_sessions_tenant_id_actor_id_fkey FOREIGN KEY (tenant_id, actor_id) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE console_sessions ADD CONSTRAINT console_sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX console_sessions_by_time ON console_sessions USING btree (tenant_id, created_at, session_id);
CREATE INDEX console_sessions_of_actor ON console_sessions USING btree (tenant_id, actor_id, created_at);
CREATE TRIGGER console_sessions_final BEFORE UPDATE ON console_sessions FOR EACH ROW WHEN ((old.ended_at IS NOT NULL)) EXECUTE FUNCTION refuse('a session that has ended never changes');
CREATE TRIGGER console_sessions_never_deleted BEFORE DELETE ON console_sessions FOR EACH ROW EXECUTE FUNCTION refuse('a session is never deleted');
CREATE TRIGGER console_sessions_not_truncated BEFORE TRUNCATE ON console_sessions FOR EACH STATEMENT EXECUTE FUNCTION refuse('sessions are never deleted');
ALTER TABLE console_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON console_sessions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY session_lookup ON console_sessions FOR SELECT TO bpc_owner USING (true);
GRANT SELECT,INSERT ON TABLE console_sessions TO bpc_app;
GRANT UPDATE(ended_at) ON TABLE console_sessions TO bpc_app;
GRANT UPDATE(last_used_at) ON TABLE console_sessions TO bpc_app;
GRANT UPDATE(roles_read_at) ON TABLE console_sessions TO bpc_app;
GRANT UPDATE(reading_since) ON TABLE console_sessions TO bpc_app;
GRANT UPDATE(provider_tokens) ON TABLE console_sessions TO bpc_app;

-- data_snapshots ------------------------------------------------------------------------------------------------
CREATE TABLE data_snapshots (
    tenant_id uuid NOT NULL,
    snapshot_id uuid NOT NULL,
    status snapshot_status NOT NULL,
    label text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    sealed_at timestamp with time zone,
    snapshot_canonical bytea,
    snapshot_hash hash256,
    CONSTRAINT data_snapshots_sealed_is_complete CHECK ((((status = 'SEALED'::snapshot_status) = (sealed_at IS NOT NULL)) AND ((status = 'SEALED'::snapshot_status) = (snapshot_canonical IS NOT NULL)) AND ((status = 'SEALED'::snapshot_status) = (snapshot_hash IS NOT NULL))))
);
ALTER TABLE data_snapshots FORCE ROW LEVEL SECURITY;
ALTER TABLE data_snapshots ADD CONSTRAINT data_snapshots_pkey PRIMARY KEY (tenant_id, snapshot_id);
ALTER TABLE data_snapshots ADD CONSTRAINT data_snapshots_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE data_snapshots ADD CONSTRAINT data_snapshots_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX data_snapshots_by_time ON data_snapshots USING btree (tenant_id, created_at, snapshot_id);
CREATE TRIGGER data_snapshots_frozen BEFORE UPDATE OF tenant_id, snapshot_id, created_at, created_by ON data_snapshots FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot''s identity never changes');
CREATE TRIGGER data_snapshots_not_truncated BEFORE TRUNCATE ON data_snapshots FOR EACH STATEMENT EXECUTE FUNCTION refuse('snapshots are never deleted');
CREATE TRIGGER data_snapshots_ready_first BEFORE UPDATE OF status ON data_snapshots FOR EACH ROW WHEN (((old.status = 'BUILDING'::snapshot_status) AND (new.status = 'SEALED'::snapshot_status))) EXECUTE FUNCTION refuse('only a ready snapshot can be sealed');
CREATE TRIGGER data_snapshots_sealed BEFORE UPDATE ON data_snapshots FOR EACH ROW WHEN ((old.status = 'SEALED'::snapshot_status)) EXECUTE FUNCTION refuse('the snapshot is sealed');
CREATE TRIGGER data_snapshots_stay BEFORE DELETE ON data_snapshots FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot is never deleted');
ALTER TABLE data_snapshots ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON data_snapshots USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE data_snapshots TO bpc_app;
GRANT UPDATE(status) ON TABLE data_snapshots TO bpc_app;
GRANT UPDATE(label) ON TABLE data_snapshots TO bpc_app;
GRANT UPDATE(sealed_at) ON TABLE data_snapshots TO bpc_app;
GRANT UPDATE(snapshot_canonical) ON TABLE data_snapshots TO bpc_app;
GRANT UPDATE(snapshot_hash) ON TABLE data_snapshots TO bpc_app;

-- document_refs -------------------------------------------------------------------------------------------------
CREATE TABLE document_refs (
    tenant_id uuid NOT NULL,
    external_ref text NOT NULL,
    document_id uuid NOT NULL,
    CONSTRAINT document_refs_external_ref_check CHECK ((external_ref <> ''::text))
);
ALTER TABLE document_refs FORCE ROW LEVEL SECURITY;
ALTER TABLE document_refs ADD CONSTRAINT document_refs_pkey PRIMARY KEY (tenant_id, external_ref);
ALTER TABLE document_refs ADD CONSTRAINT document_refs_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES documents(tenant_id, document_id);
ALTER TABLE document_refs ADD CONSTRAINT document_refs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE document_refs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_refs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE document_refs TO bpc_app;

-- document_statements -------------------------------------------------------------------------------------------
CREATE TABLE document_statements (
    tenant_id uuid NOT NULL,
    statement_id uuid NOT NULL,
    document_id uuid NOT NULL,
    sequence integer NOT NULL,
    document_version_id uuid,
    reason text,
    stated_at timestamp with time zone DEFAULT now() NOT NULL,
    stated_by uuid,
    file_name text,
    CONSTRAINT document_statements_file_name_check CHECK ((file_name <> ''::text)),
    CONSTRAINT document_statements_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT document_statements_sequence_check CHECK ((sequence >= 1)),
    CONSTRAINT document_statements_withdrawn_why CHECK (((document_version_id IS NULL) = (reason IS NOT NULL)))
);
ALTER TABLE document_statements FORCE ROW LEVEL SECURITY;
ALTER TABLE document_statements ADD CONSTRAINT document_statements_in_order UNIQUE (tenant_id, document_id, sequence);
ALTER TABLE document_statements ADD CONSTRAINT document_statements_pkey PRIMARY KEY (tenant_id, statement_id);
ALTER TABLE document_statements ADD CONSTRAINT document_statements_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES documents(tenant_id, document_id);
ALTER TABLE document_statements ADD CONSTRAINT document_statements_tenant_id_document_version_id_fkey FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
ALTER TABLE document_statements ADD CONSTRAINT document_statements_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE document_statements ADD CONSTRAINT document_statements_tenant_id_stated_by_fkey FOREIGN KEY (tenant_id, stated_by) REFERENCES actors(tenant_id, actor_id);
CREATE INDEX document_statements_by_time ON document_statements USING btree (tenant_id, document_id, stated_at, statement_id);
CREATE INDEX document_statements_of_version ON document_statements USING btree (tenant_id, document_version_id);
CREATE TRIGGER document_statements_never_change BEFORE DELETE OR UPDATE ON document_statements FOR EACH ROW EXECUTE FUNCTION refuse('a statement is never changed or deleted');
CREATE TRIGGER document_statements_not_truncated BEFORE TRUNCATE ON document_statements FOR EACH STATEMENT EXECUTE FUNCTION refuse('statements are never deleted');
ALTER TABLE document_statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_statements USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE document_statements TO bpc_app;

-- document_texts ------------------------------------------------------------------------------------------------
CREATE TABLE document_texts (
    tenant_id uuid NOT NULL,
    document_version_id uuid NOT NULL,
    pages integer,
    text text,
    problem text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT document_texts_pages_check CHECK ((pages >= 0)),
    CONSTRAINT document_texts_text_or_problem CHECK (((text IS NULL) = (problem IS NOT NULL)))
);
ALTER TABLE document_texts FORCE ROW LEVEL SECURITY;
ALTER TABLE document_texts ADD CONSTRAINT document_texts_pkey PRIMARY KEY (tenant_id, document_version_id);
ALTER TABLE document_texts ADD CONSTRAINT document_texts_tenant_id_document_version_id_fkey FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
ALTER TABLE document_texts ADD CONSTRAINT document_texts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE TRIGGER document_texts_never_change BEFORE UPDATE ON document_texts FOR EACH ROW EXECUTE FUNCTION refuse('the text of a document never changes');
CREATE TRIGGER document_texts_not_truncated BEFORE TRUNCATE ON document_texts FOR EACH STATEMENT EXECUTE FUNCTION refuse('texts of documents are never deleted');
CREATE TRIGGER document_texts_stay BEFORE DELETE ON document_texts FOR EACH ROW WHEN ((CURRENT_USER <> 'bpc_system'::name)) EXECUTE FUNCTION refuse('the text of a document goes with its content, by retention');
ALTER TABLE document_texts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_texts USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE document_texts TO bpc_app;
GRANT DELETE ON TABLE document_texts TO bpc_system;

-- document_version_refs -----------------------------------------------------------------------------------------
CREATE TABLE document_version_refs (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    version_ref text NOT NULL,
    document_version_id uuid NOT NULL,
    CONSTRAINT document_version_refs_version_ref_check CHECK ((version_ref <> ''::text))
);
ALTER TABLE document_version_refs FORCE ROW LEVEL SECURITY;
ALTER TABLE document_version_refs ADD CONSTRAINT document_version_refs_pkey PRIMARY KEY (tenant_id, document_id, version_ref);
ALTER TABLE document_version_refs ADD CONSTRAINT document_version_refs_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES documents(tenant_id, document_id);
ALTER TABLE document_version_refs ADD CONSTRAINT document_version_refs_tenant_id_document_version_id_fkey FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
ALTER TABLE document_version_refs ADD CONSTRAINT document_version_refs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE document_version_refs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_version_refs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE document_version_refs TO bpc_app;

-- document_versions ---------------------------------------------------------------------------------------------
CREATE TABLE document_versions (
    tenant_id uuid NOT NULL,
    document_version_id uuid NOT NULL,
    document_id uuid NOT NULL,
    version integer NOT NULL,
    status document_status NOT NULL,
    mime_type text NOT NULL,
    sha256 hash256,
    content bytea,
    content_removed_at timestamp with time zone,
    uploaded_at timestamp with time zone DEFAULT now() NOT NULL,
    read_options bytea DEFAULT '\x7b7d'::bytea NOT NULL,
    reread_sha256 hash256,
    content_restored_at timestamp with time zone,
    CONSTRAINT document_versions_content_or_removed CHECK (((content IS NULL) = (content_removed_at IS NOT NULL))),
    CONSTRAINT document_versions_version_check CHECK ((version >= 1))
);
ALTER TABLE document_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE document_versions ADD CONSTRAINT document_versions_pkey PRIMARY KEY (tenant_id, document_version_id);
ALTER TABLE document_versions ADD CONSTRAINT document_versions_version_key UNIQUE (tenant_id, document_id, version);
ALTER TABLE document_versions ADD CONSTRAINT document_versions_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES documents(tenant_id, document_id);
ALTER TABLE document_versions ADD CONSTRAINT document_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX document_versions_by_time ON document_versions USING btree (tenant_id, document_id, uploaded_at, document_version_id);
CREATE UNIQUE INDEX document_versions_reread_key ON document_versions USING btree (tenant_id, reread_sha256, sha256(read_options)) WHERE ((reread_sha256 IS NOT NULL) AND (status <> 'REJECTED'::document_status));
CREATE UNIQUE INDEX document_versions_sha256_key ON document_versions USING btree (tenant_id, sha256) WHERE (status <> 'REJECTED'::document_status);
CREATE INDEX document_versions_with_content ON document_versions USING btree (tenant_id, uploaded_at) WHERE (content IS NOT NULL);
CREATE CONSTRAINT TRIGGER document_versions_are_stated AFTER INSERT ON document_versions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION state_new_version();
CREATE TRIGGER document_versions_content_stays BEFORE UPDATE OF content, content_removed_at, content_restored_at ON document_versions FOR EACH ROW WHEN ((NOT (((CURRENT_USER = 'bpc_system'::name) AND (old.content IS NOT NULL) AND (new.content IS NULL) AND (NOT (new.content_restored_at IS DISTINCT FROM old.content_restored_at))) OR ((old.content IS NULL) AND (new.content IS NOT NULL) AND (new.content_restored_at IS NOT NULL) AND (sha256(new.content) = (COALESCE(old.sha256, old.reread_sha256))::bytea))))) EXECUTE FUNCTION refuse('a document''s content is only ever removed by retention, and comes back only as it was');
CREATE TRIGGER document_versions_frozen BEFORE UPDATE OF tenant_id, document_version_id, document_id, version, mime_type, sha256, uploaded_at ON document_versions FOR EACH ROW EXECUTE FUNCTION refuse('a document version never changes');
CREATE TRIGGER document_versions_not_truncated BEFORE TRUNCATE ON document_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('document versions are never deleted');
CREATE TRIGGER document_versions_reading_frozen BEFORE UPDATE OF read_options, reread_sha256 ON document_versions FOR EACH ROW EXECUTE FUNCTION refuse('a document version never changes');
CREATE TRIGGER document_versions_status_forward BEFORE UPDATE OF status ON document_versions FOR EACH ROW WHEN (((new.status <> old.status) AND ((((((old.status <> 'UPLOADED'::document_status) OR (new.status <> 'PARSED'::document_status)) AND ((old.status <> 'UPLOADED'::document_status) OR (new.status <> 'VALIDATED'::document_status))) AND ((old.status <> 'UPLOADED'::document_status) OR (new.status <> 'REJECTED'::document_status))) AND ((old.status <> 'PARSED'::document_status) OR (new.status <> 'VALIDATED'::document_status))) AND ((old.status <> 'PARSED'::document_status) OR (new.status <> 'REJECTED'::document_status))))) EXECUTE FUNCTION refuse('a document version''s status only moves forward');
CREATE TRIGGER document_versions_stay BEFORE DELETE ON document_versions FOR EACH ROW EXECUTE FUNCTION refuse('a document version is never deleted');
ALTER TABLE document_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON document_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE document_versions TO bpc_app;
GRANT UPDATE(status) ON TABLE document_versions TO bpc_app;
GRANT UPDATE(content) ON TABLE document_versions TO bpc_system;
GRANT UPDATE(content) ON TABLE document_versions TO bpc_app;
GRANT UPDATE(content_removed_at) ON TABLE document_versions TO bpc_system;
GRANT UPDATE(content_removed_at) ON TABLE document_versions TO bpc_app;
GRANT UPDATE(content_restored_at) ON TABLE document_versions TO bpc_app;

-- documents -----------------------------------------------------------------------------------------------------
CREATE TABLE documents (
    tenant_id uuid NOT NULL,
    document_id uuid NOT NULL,
    kind document_kind NOT NULL,
    external_ref text,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    supplier_id uuid,
    number_locale text,
    name text,
    CONSTRAINT documents_name_check CHECK ((name <> ''::text)),
    CONSTRAINT documents_number_locale_check CHECK ((number_locale = ANY (ARRAY['comma'::text, 'point'::text])))
);
ALTER TABLE documents FORCE ROW LEVEL SECURITY;
ALTER TABLE documents ADD CONSTRAINT documents_pkey PRIMARY KEY (tenant_id, document_id);
ALTER TABLE documents ADD CONSTRAINT documents_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE documents ADD CONSTRAINT documents_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE documents ADD CONSTRAINT documents_tenant_id_supplier_id_fkey FOREIGN KEY (tenant_id, supplier_id) REFERENCES suppliers(tenant_id, supplier_id);
CREATE INDEX documents_bom ON documents USING btree (tenant_id, created_at, document_id) WHERE (kind = 'BOM'::document_kind);
CREATE INDEX documents_by_ref ON documents USING btree (tenant_id, external_ref, created_at, document_id) WHERE (external_ref IS NOT NULL);
CREATE INDEX documents_by_text ON documents USING gin (search_grams(tenant_id, ((COALESCE(name, ''::text) || ' '::text) || COALESCE(external_ref, ''::text)), 2));
CREATE INDEX documents_by_time ON documents USING btree (tenant_id, created_at, document_id);
CREATE INDEX documents_due_diligence ON documents USING btree (tenant_id, created_at, document_id) WHERE (kind = 'DUE_DILIGENCE'::document_kind);
CREATE INDEX documents_inactive ON documents USING btree (tenant_id, created_at, document_id) WHERE (NOT is_active);
CREATE INDEX documents_of_supplier ON documents USING btree (tenant_id, supplier_id, created_at, document_id) WHERE (supplier_id IS NOT NULL);
CREATE INDEX documents_other ON documents USING btree (tenant_id, created_at, document_id) WHERE (kind = 'OTHER'::document_kind);
CREATE INDEX documents_pcf ON documents USING btree (tenant_id, created_at, document_id) WHERE (kind = 'PCF'::document_kind);
ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON documents USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY text_search ON documents FOR SELECT TO bpc_owner USING (true);
GRANT SELECT,INSERT ON TABLE documents TO bpc_app;
GRANT UPDATE(external_ref) ON TABLE documents TO bpc_app;
GRANT UPDATE(is_active) ON TABLE documents TO bpc_app;
GRANT UPDATE(supplier_id) ON TABLE documents TO bpc_app;
GRANT UPDATE(number_locale) ON TABLE documents TO bpc_app;
GRANT UPDATE(name) ON TABLE documents TO bpc_app;

-- event_anchors -------------------------------------------------------------------------------------------------
CREATE TABLE event_anchors (
    tenant_id uuid NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    aggregate_version bigint NOT NULL,
    event_hash hash256 NOT NULL,
    CONSTRAINT event_anchors_aggregate_version_check CHECK ((aggregate_version >= 1))
);
ALTER TABLE event_anchors FORCE ROW LEVEL SECURITY;
ALTER TABLE event_anchors ADD CONSTRAINT event_anchors_pkey PRIMARY KEY (tenant_id, aggregate_type, aggregate_id);
ALTER TABLE event_anchors ADD CONSTRAINT event_anchors_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE TRIGGER event_anchors_forward BEFORE UPDATE ON event_anchors FOR EACH ROW WHEN ((new.aggregate_version <= old.aggregate_version)) EXECUTE FUNCTION refuse('an anchor only moves forward');
CREATE TRIGGER event_anchors_hold BEFORE INSERT OR UPDATE ON event_anchors FOR EACH ROW EXECUTE FUNCTION refuse_loose_anchor();
CREATE TRIGGER event_anchors_not_of_tenants BEFORE INSERT OR UPDATE ON event_anchors FOR EACH ROW WHEN ((new.aggregate_type = 'Tenant'::text)) EXECUTE FUNCTION refuse('the chain of a tenant is never cut');
CREATE TRIGGER event_anchors_not_truncated BEFORE TRUNCATE ON event_anchors FOR EACH STATEMENT EXECUTE FUNCTION refuse('anchors are never deleted');
CREATE TRIGGER event_anchors_stay BEFORE DELETE ON event_anchors FOR EACH ROW EXECUTE FUNCTION refuse('an anchor is never deleted');
ALTER TABLE event_anchors ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON event_anchors USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT ON TABLE event_anchors TO bpc_app;
GRANT INSERT ON TABLE event_anchors TO bpc_system;
GRANT UPDATE(aggregate_version) ON TABLE event_anchors TO bpc_system;
GRANT UPDATE(event_hash) ON TABLE event_anchors TO bpc_system;

-- events --------------------------------------------------------------------------------------------------------
CREATE TABLE events (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    aggregate_version bigint NOT NULL,
    event_type text NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    actor_id uuid,
    payload jsonb NOT NULL,
    payload_canonical bytea NOT NULL,
    payload_hash hash256 NOT NULL,
    prev_event_hash hash256,
    event_hash hash256 NOT NULL,
    recorded_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT events_aggregate_version_check CHECK ((aggregate_version >= 1)),
    CONSTRAINT events_time_has_a_form CHECK (((occurred_at >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (occurred_at < '10000-01-01 00:00:00+00'::timestamp with time zone)))
);
ALTER TABLE events FORCE ROW LEVEL SECURITY;
ALTER TABLE events ADD CONSTRAINT events_chain_key UNIQUE (tenant_id, aggregate_type, aggregate_id, aggregate_version);
ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY (tenant_id, event_id);
ALTER TABLE events ADD CONSTRAINT events_tenant_id_actor_id_fkey FOREIGN KEY (tenant_id, actor_id) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE events ADD CONSTRAINT events_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX events_by_actor_time ON events USING btree (tenant_id, actor_id, occurred_at, event_id);
CREATE INDEX events_by_aggregate_type_time ON events USING btree (tenant_id, aggregate_type, occurred_at, event_id);
CREATE INDEX events_by_time ON events USING btree (tenant_id, occurred_at, event_id);
CREATE INDEX events_by_type_time ON events USING btree (tenant_id, event_type, occurred_at, event_id);
CREATE INDEX events_in_recorded_order ON events USING btree (tenant_id, recorded_in, occurred_at, event_id);
CREATE INDEX events_of_aggregate_by_time ON events USING btree (tenant_id, aggregate_id, occurred_at, event_id);
CREATE TRIGGER events_go_behind_their_anchor BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION refuse_before_anchor();
CREATE TRIGGER events_join_the_log AFTER INSERT ON events FOR EACH ROW WHEN (((new.event_type = ANY (ARRAY['PASSPORT_SIGNED'::text, 'PASSPORT_ACTIVATED'::text, 'PASSPORT_SUPERSEDED'::text, 'PASSPORT_REVOKED'::text, 'PASSPORT_WAIVED'::text, 'BATTERY_RECYCLED'::text, 'RULES_PUBLISHED'::text, 'RetentionApplied'::text, 'TENANT_KEY_CREATED'::text, 'TENANT_KEY_RETIRED'::text, 'TENANT_KEY_COMPROMISED'::text])) OR ((new.event_type = ANY (ARRAY['SIGNING_KEY_CREATED'::text, 'SIGNING_KEY_CHANGED'::text, 'SIGNING_KEY_COMPROMISED'::text])) AND (new.tenant_id = '00000000-0000-4000-8000-000000000001'::uuid)))) EXECUTE FUNCTION put_into_log_outbox();
CREATE TRIGGER events_never_change BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse('an event is never changed');
CREATE TRIGGER events_not_truncated BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse('events are never deleted');
CREATE TRIGGER events_stay BEFORE DELETE ON events FOR EACH ROW WHEN ((CURRENT_USER <> 'bpc_system'::name)) EXECUTE FUNCTION refuse('an event is never deleted');
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON events USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY without_a_tenant ON events FOR SELECT TO bpc_owner USING ((NOT (EXISTS ( SELECT
   FROM tenants t
  WHERE (t.tenant_id = events.tenant_id)))));
GRANT SELECT,INSERT ON TABLE events TO bpc_app;
GRANT DELETE ON TABLE events TO bpc_system;

-- fact_decisions ------------------------------------------------------------------------------------------------
CREATE TABLE fact_decisions (
    tenant_id uuid NOT NULL,
    decision_id uuid NOT NULL,
    fact_type text NOT NULL,
    fact_key text NOT NULL,
    member text NOT NULL,
    document_id uuid NOT NULL,
    reason text NOT NULL,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_by uuid,
    CONSTRAINT fact_decisions_member_check CHECK ((member <> ''::text)),
    CONSTRAINT fact_decisions_reason_check CHECK ((reason <> ''::text))
);
ALTER TABLE fact_decisions FORCE ROW LEVEL SECURITY;
ALTER TABLE fact_decisions ADD CONSTRAINT fact_decisions_pkey PRIMARY KEY (tenant_id, decision_id);
ALTER TABLE fact_decisions ADD CONSTRAINT fact_decisions_tenant_id_decided_by_fkey FOREIGN KEY (tenant_id, decided_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE fact_decisions ADD CONSTRAINT fact_decisions_tenant_id_document_id_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES documents(tenant_id, document_id);
ALTER TABLE fact_decisions ADD CONSTRAINT fact_decisions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX fact_decisions_by_key ON fact_decisions USING btree (tenant_id, fact_key COLLATE "C", fact_type, member);
CREATE TRIGGER fact_decisions_never_change BEFORE DELETE OR UPDATE ON fact_decisions FOR EACH ROW EXECUTE FUNCTION refuse('a decision is never changed or deleted');
CREATE TRIGGER fact_decisions_not_truncated BEFORE TRUNCATE ON fact_decisions FOR EACH STATEMENT EXECUTE FUNCTION refuse('decisions are never deleted');
ALTER TABLE fact_decisions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON fact_decisions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE fact_decisions TO bpc_app;

-- fact_sources --------------------------------------------------------------------------------------------------
CREATE TABLE fact_sources (
    tenant_id uuid NOT NULL,
    fact_id uuid NOT NULL,
    document_version_id uuid NOT NULL,
    source_path text NOT NULL,
    members text[],
    member_places jsonb,
    unreadable jsonb
);
ALTER TABLE fact_sources FORCE ROW LEVEL SECURITY;
ALTER TABLE fact_sources ADD CONSTRAINT fact_sources_pkey PRIMARY KEY (tenant_id, fact_id, document_version_id, source_path);
ALTER TABLE fact_sources ADD CONSTRAINT fact_sources_tenant_id_document_version_id_fkey FOREIGN KEY (tenant_id, document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
ALTER TABLE fact_sources ADD CONSTRAINT fact_sources_tenant_id_fact_id_fkey FOREIGN KEY (tenant_id, fact_id) REFERENCES facts(tenant_id, fact_id);
ALTER TABLE fact_sources ADD CONSTRAINT fact_sources_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX fact_sources_of_document ON fact_sources USING btree (tenant_id, document_version_id, fact_id);
CREATE TRIGGER fact_sources_never_change BEFORE DELETE OR UPDATE ON fact_sources FOR EACH ROW EXECUTE FUNCTION refuse('a fact''s source is never changed or deleted');
CREATE TRIGGER fact_sources_not_truncated BEFORE TRUNCATE ON fact_sources FOR EACH STATEMENT EXECUTE FUNCTION refuse('facts'' sources are never deleted');
ALTER TABLE fact_sources ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON fact_sources USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE fact_sources TO bpc_app;

-- facts ---------------------------------------------------------------------------------------------------------
CREATE TABLE facts (
    tenant_id uuid NOT NULL,
    fact_id uuid NOT NULL,
    fact_type text NOT NULL,
    fact_key text NOT NULL,
    schema_version integer NOT NULL,
    source_document_version_id uuid,
    source_path text,
    payload jsonb NOT NULL,
    payload_canonical bytea NOT NULL,
    payload_hash hash256 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT facts_have_a_source CHECK (((fact_type = 'Blinding'::text) = (source_document_version_id IS NULL))),
    CONSTRAINT facts_schema_version_check CHECK ((schema_version >= 1))
);
ALTER TABLE facts FORCE ROW LEVEL SECURITY;
ALTER TABLE facts ADD CONSTRAINT facts_pkey PRIMARY KEY (tenant_id, fact_id);
ALTER TABLE facts ADD CONSTRAINT facts_same_fact_key UNIQUE (tenant_id, fact_type, fact_key, schema_version, payload_hash);
ALTER TABLE facts ADD CONSTRAINT facts_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE facts ADD CONSTRAINT facts_tenant_id_source_document_version_id_fkey FOREIGN KEY (tenant_id, source_document_version_id) REFERENCES document_versions(tenant_id, document_version_id);
CREATE INDEX facts_by_key ON facts USING btree (tenant_id, fact_key COLLATE "C", created_at, fact_id) WHERE (fact_type <> 'Blinding'::text);
CREATE INDEX facts_by_time ON facts USING btree (tenant_id, created_at, fact_id) WHERE (fact_type <> 'Blinding'::text);
CREATE INDEX facts_of_document ON facts USING btree (tenant_id, source_document_version_id);
CREATE INDEX facts_of_type_by_key ON facts USING btree (tenant_id, fact_type, fact_key COLLATE "C", created_at, fact_id);
CREATE INDEX facts_of_type_by_time ON facts USING btree (tenant_id, fact_type, created_at, fact_id);
CREATE TRIGGER facts_never_change BEFORE DELETE OR UPDATE ON facts FOR EACH ROW EXECUTE FUNCTION refuse('a fact is never changed or deleted');
CREATE TRIGGER facts_not_truncated BEFORE TRUNCATE ON facts FOR EACH STATEMENT EXECUTE FUNCTION refuse('facts are never deleted');
ALTER TABLE facts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON facts USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE facts TO bpc_app;

-- idempotency_keys ----------------------------------------------------------------------------------------------
CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    request_hash hash256 NOT NULL,
    response_status integer NOT NULL,
    response_headers jsonb NOT NULL,
    response_body bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    actor_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL
);
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, key, actor_id);
ALTER TABLE idempotency_keys ADD CONSTRAINT idempotency_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys USING btree (tenant_id, created_at);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON idempotency_keys USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE idempotency_keys TO bpc_app;

-- item_chunks ---------------------------------------------------------------------------------------------------
CREATE TABLE item_chunks (
    tenant_id uuid NOT NULL,
    item_chunk_id uuid NOT NULL,
    item_run_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    chunk_number integer NOT NULL,
    total integer NOT NULL,
    source_sha256 bytea NOT NULL,
    source bytea,
    battery_ids uuid[],
    issued integer,
    refusals jsonb,
    tree_seed bytea,
    root bytea,
    leaf_hashes bytea,
    pack_sha256 bytea,
    pack_bytes integer,
    started_at timestamp with time zone,
    issued_at timestamp with time zone,
    batch_version_id uuid,
    CONSTRAINT item_chunks_check CHECK (((issued >= 0) AND (issued <= total))),
    CONSTRAINT item_chunks_check1 CHECK ((octet_length(leaf_hashes) = (32 * issued))),
    CONSTRAINT item_chunks_chunk_number_check CHECK ((chunk_number > 0)),
    CONSTRAINT item_chunks_pack_bytes_check CHECK ((pack_bytes > 0)),
    CONSTRAINT item_chunks_pack_sha256_check CHECK ((octet_length(pack_sha256) = 32)),
    CONSTRAINT item_chunks_root_check CHECK ((octet_length(root) = 32)),
    CONSTRAINT item_chunks_source_sha256_check CHECK ((octet_length(source_sha256) = 32)),
    CONSTRAINT item_chunks_total_check CHECK (((total >= 1) AND (total <= 1024))),
    CONSTRAINT item_chunks_tree_seed_check CHECK ((octet_length(tree_seed) = 32)),
    CONSTRAINT item_chunks_whole CHECK (
CASE
    WHEN (issued_at IS NULL) THEN ((num_nonnulls(source, battery_ids) = 2) AND (num_nonnulls(issued, refusals, tree_seed, root, leaf_hashes, pack_sha256, pack_bytes, started_at) = 0))
    ELSE ((num_nonnulls(source, battery_ids) = 0) AND (num_nonnulls(issued, refusals, tree_seed, root, leaf_hashes, started_at) = 6) AND (num_nonnulls(pack_sha256, pack_bytes) =
    CASE
        WHEN (issued > 0) THEN 2
        ELSE 0
    END))
END)
);
ALTER TABLE item_chunks ALTER COLUMN source SET STORAGE EXTERNAL;
ALTER TABLE item_chunks ALTER COLUMN leaf_hashes SET STORAGE EXTERNAL;
ALTER TABLE item_chunks FORCE ROW LEVEL SECURITY;
ALTER TABLE item_chunks ADD CONSTRAINT item_chunks_number_key UNIQUE (tenant_id, item_run_id, chunk_number);
ALTER TABLE item_chunks ADD CONSTRAINT item_chunks_pkey PRIMARY KEY (tenant_id, item_chunk_id);
ALTER TABLE item_chunks ADD CONSTRAINT item_chunks_tenant_id_batch_version_id_fkey FOREIGN KEY (tenant_id, batch_version_id) REFERENCES batch_passport_versions(tenant_id, passport_version_id);
ALTER TABLE item_chunks ADD CONSTRAINT item_chunks_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE item_chunks ADD CONSTRAINT item_chunks_tenant_id_item_run_id_fkey FOREIGN KEY (tenant_id, item_run_id) REFERENCES item_runs(tenant_id, item_run_id);
CREATE INDEX item_chunks_waiting ON item_chunks USING btree (tenant_id, battery_product_id) WHERE (issued_at IS NULL);
CREATE TRIGGER item_chunks_frozen BEFORE UPDATE OF tenant_id, item_chunk_id, item_run_id, battery_product_id, chunk_number, total, source_sha256, batch_version_id ON item_chunks FOR EACH ROW EXECUTE FUNCTION refuse('what a chunk was asked for never changes');
CREATE TRIGGER item_chunks_issued_once BEFORE UPDATE ON item_chunks FOR EACH ROW WHEN ((old.issued_at IS NOT NULL)) EXECUTE FUNCTION refuse('a chunk is issued once');
CREATE TRIGGER item_chunks_not_truncated BEFORE TRUNCATE ON item_chunks FOR EACH STATEMENT EXECUTE FUNCTION refuse('chunks of runs are never deleted');
CREATE TRIGGER item_chunks_stay BEFORE DELETE ON item_chunks FOR EACH ROW EXECUTE FUNCTION refuse('a chunk of a run is never deleted');
ALTER TABLE item_chunks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON item_chunks USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(source) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(battery_ids) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(issued) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(refusals) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(tree_seed) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(root) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(leaf_hashes) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(pack_sha256) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(pack_bytes) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(started_at) ON TABLE item_chunks TO bpc_app;
GRANT UPDATE(issued_at) ON TABLE item_chunks TO bpc_app;

-- item_passport_versions ----------------------------------------------------------------------------------------
CREATE TABLE item_passport_versions (
    tenant_id uuid NOT NULL,
    battery_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    item_chunk_id uuid NOT NULL,
    issued_at timestamp with time zone NOT NULL,
    leaf_number integer NOT NULL,
    pack_offset integer NOT NULL,
    pack_length integer NOT NULL,
    fail_count integer NOT NULL,
    warn_count integer NOT NULL,
    status text NOT NULL,
    receipt_hash bytea NOT NULL,
    input_hash bytea NOT NULL,
    CONSTRAINT item_passport_versions_fail_count_check CHECK ((fail_count >= 0)),
    CONSTRAINT item_passport_versions_input_hash_check CHECK ((octet_length(input_hash) = 32)),
    CONSTRAINT item_passport_versions_leaf_number_check CHECK (((leaf_number >= 0) AND (leaf_number <= 1023))),
    CONSTRAINT item_passport_versions_pack_length_check CHECK ((pack_length > 0)),
    CONSTRAINT item_passport_versions_pack_offset_check CHECK ((pack_offset > 0)),
    CONSTRAINT item_passport_versions_receipt_hash_check CHECK ((octet_length(receipt_hash) = 32)),
    CONSTRAINT item_passport_versions_status_check CHECK ((status = 'ISSUED'::text)),
    CONSTRAINT item_passport_versions_warn_count_check CHECK ((warn_count >= 0))
);
ALTER TABLE item_passport_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE item_passport_versions ADD CONSTRAINT item_passport_versions_leaf_key UNIQUE (tenant_id, item_chunk_id, leaf_number);
ALTER TABLE item_passport_versions ADD CONSTRAINT item_passport_versions_pkey PRIMARY KEY (tenant_id, battery_id, issued_at);
ALTER TABLE item_passport_versions ADD CONSTRAINT item_passport_versions_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE item_passport_versions ADD CONSTRAINT item_passport_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE item_passport_versions ADD CONSTRAINT item_passport_versions_tenant_id_item_chunk_id_fkey FOREIGN KEY (tenant_id, item_chunk_id) REFERENCES item_chunks(tenant_id, item_chunk_id);
CREATE TRIGGER item_passport_versions_never_change BEFORE DELETE OR UPDATE ON item_passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('the passport of a battery is never changed or deleted');
CREATE TRIGGER item_passport_versions_not_truncated BEFORE TRUNCATE ON item_passport_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('passports of batteries are never deleted');
ALTER TABLE item_passport_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON item_passport_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE item_passport_versions TO bpc_app;

-- item_runs -----------------------------------------------------------------------------------------------------
CREATE TABLE item_runs (
    tenant_id uuid NOT NULL,
    item_run_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    model_version_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    model_receipt_hash bytea NOT NULL,
    dsl_sha256 bytea NOT NULL,
    request_hash bytea NOT NULL,
    compiler_build_id text NOT NULL,
    signing_key_id text NOT NULL,
    secret text NOT NULL,
    total integer NOT NULL,
    unchanged integer NOT NULL,
    resumed integer DEFAULT 0 NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    requested_by uuid,
    stopped_at timestamp with time zone,
    CONSTRAINT item_runs_compiler_build_id_check CHECK ((compiler_build_id <> ''::text)),
    CONSTRAINT item_runs_dsl_sha256_check CHECK ((octet_length(dsl_sha256) = 32)),
    CONSTRAINT item_runs_model_receipt_hash_check CHECK ((octet_length(model_receipt_hash) = 32)),
    CONSTRAINT item_runs_request_hash_check CHECK ((octet_length(request_hash) = 32)),
    CONSTRAINT item_runs_resumed_check CHECK ((resumed >= 0)),
    CONSTRAINT item_runs_secret_check CHECK ((secret <> ''::text)),
    CONSTRAINT item_runs_signing_key_id_check CHECK ((signing_key_id <> ''::text)),
    CONSTRAINT item_runs_total_check CHECK ((total > 0)),
    CONSTRAINT item_runs_unchanged_check CHECK ((unchanged >= 0))
);
ALTER TABLE item_runs FORCE ROW LEVEL SECURITY;
ALTER TABLE item_runs ADD CONSTRAINT item_runs_pkey PRIMARY KEY (tenant_id, item_run_id);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_request_key UNIQUE (tenant_id, request_hash);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_tenant_id_battery_product_id_fkey FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products(tenant_id, battery_product_id);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_tenant_id_model_version_id_fkey FOREIGN KEY (tenant_id, model_version_id) REFERENCES passport_versions(tenant_id, passport_version_id);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_tenant_id_requested_by_fkey FOREIGN KEY (tenant_id, requested_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE item_runs ADD CONSTRAINT item_runs_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
CREATE INDEX item_runs_by_time ON item_runs USING btree (tenant_id, requested_at, item_run_id);
CREATE INDEX item_runs_of_model ON item_runs USING btree (tenant_id, model_version_id);
CREATE TRIGGER item_runs_frozen BEFORE UPDATE OF tenant_id, item_run_id, battery_product_id, model_version_id, rule_package_version_id, model_receipt_hash, dsl_sha256, request_hash, compiler_build_id, signing_key_id, secret, total, unchanged, requested_at, requested_by ON item_runs FOR EACH ROW EXECUTE FUNCTION refuse('what a run was asked for never changes');
CREATE TRIGGER item_runs_not_truncated BEFORE TRUNCATE ON item_runs FOR EACH STATEMENT EXECUTE FUNCTION refuse('runs are never deleted');
CREATE TRIGGER item_runs_stay BEFORE DELETE ON item_runs FOR EACH ROW EXECUTE FUNCTION refuse('a run is never deleted');
ALTER TABLE item_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON item_runs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE item_runs TO bpc_app;
GRANT UPDATE(resumed) ON TABLE item_runs TO bpc_app;
GRANT UPDATE(stopped_at) ON TABLE item_runs TO bpc_app;

-- jobs.batch ----------------------------------------------------------------------------------------------------
CREATE TABLE jobs.batch (
    tenant_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    name text,
    total integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    follow_up json
);
ALTER TABLE jobs.batch FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.batch ADD CONSTRAINT batch_pkey PRIMARY KEY (tenant_id, batch_id);
ALTER TABLE jobs.batch ADD CONSTRAINT batch_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX batch_open ON jobs.batch USING btree (created_at) WHERE (finished_at IS NULL);
ALTER TABLE jobs.batch ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.batch TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.batch USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE jobs.batch TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.batch TO bpc_system;

-- jobs.job ------------------------------------------------------------------------------------------------------
CREATE TABLE jobs.job (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    status text DEFAULT 'QUEUED'::text NOT NULL,
    priority smallint DEFAULT 2 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    uncounted integer DEFAULT 0 NOT NULL,
    max_attempts integer NOT NULL,
    awaited boolean DEFAULT false NOT NULL,
    idempotency_key text COLLATE pg_catalog."C",
    limit_key text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    batch_id uuid,
    payload json NOT NULL,
    result json,
    last_error json,
    checkpoint json,
    step json,
    progress json,
    created_at timestamp with time zone NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    failed_at timestamp with time zone,
    keep_seconds integer NOT NULL,
    correlation_id text,
    actor text,
    traceparent text,
    service_id text,
    subject_kind text COLLATE pg_catalog."C",
    subject_id text COLLATE pg_catalog."C",
    subject_group text COLLATE pg_catalog."C",
    CONSTRAINT job_max_attempts_check CHECK ((max_attempts >= 1)),
    CONSTRAINT job_priority_check CHECK (((priority >= 0) AND (priority <= 3))),
    CONSTRAINT job_status_check CHECK ((status = ANY (ARRAY['QUEUED'::text, 'SUCCEEDED'::text, 'FAILED'::text, 'CANCELLED'::text, 'DEAD_LETTER'::text])))
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE jobs.job FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job ADD CONSTRAINT job_pkey PRIMARY KEY (tenant_id, job_id);
CREATE INDEX job_failed ON jobs.job USING btree (tenant_id, failed_at) WHERE (failed_at IS NOT NULL);
CREATE UNIQUE INDEX job_idempotency_key ON jobs.job USING btree (tenant_id, type, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX job_of_batch ON jobs.job USING btree (tenant_id, batch_id) WHERE (batch_id IS NOT NULL);
CREATE INDEX job_of_subject ON jobs.job USING btree (tenant_id, subject_kind, subject_id, job_id) WHERE (subject_id IS NOT NULL);
CREATE INDEX job_of_subject_group ON jobs.job USING btree (tenant_id, subject_group, job_id) WHERE (subject_group IS NOT NULL);
CREATE TRIGGER job_ends_delivery AFTER UPDATE OF status ON jobs.job FOR EACH ROW WHEN (((new.status = 'CANCELLED'::text) AND (new.type = 'DELIVER_WEBHOOK'::text) AND (old.status <> 'CANCELLED'::text))) EXECUTE FUNCTION end_cancelled_delivery();
CREATE TRIGGER job_tenant_exists AFTER INSERT ON jobs.job REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION jobs.refuse_unknown_tenant();
ALTER TABLE jobs.job ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE jobs.job TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job TO bpc_system;
GRANT UPDATE(status) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(attempts) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(uncounted) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(awaited) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(result) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(last_error) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(checkpoint) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(step) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(progress) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(scheduled_at) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(started_at) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(finished_at) ON TABLE jobs.job TO bpc_app;
GRANT UPDATE(failed_at) ON TABLE jobs.job TO bpc_app;

-- jobs.job_dependency -------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_dependency (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    needs_id uuid NOT NULL,
    met boolean DEFAULT false NOT NULL
);
ALTER TABLE jobs.job_dependency FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job_dependency ADD CONSTRAINT job_dependency_pkey PRIMARY KEY (tenant_id, job_id, needs_id);
CREATE INDEX job_dependency_on ON jobs.job_dependency USING btree (tenant_id, needs_id);
ALTER TABLE jobs.job_dependency ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job_dependency TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job_dependency USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE jobs.job_dependency TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job_dependency TO bpc_system;
GRANT UPDATE(met) ON TABLE jobs.job_dependency TO bpc_app;

-- jobs.job_later ------------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_later (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    run_at timestamp with time zone NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    attempt integer NOT NULL,
    limit_key text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE jobs.job_later FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job_later ADD CONSTRAINT job_later_pkey PRIMARY KEY (tenant_id, job_id);
CREATE INDEX job_later_due ON jobs.job_later USING btree (run_at);
ALTER TABLE jobs.job_later ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job_later TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job_later USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE jobs.job_later TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job_later TO bpc_system;

-- jobs.job_lease ------------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_lease (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL,
    attempt integer NOT NULL,
    priority smallint NOT NULL,
    limit_key text NOT NULL COLLATE pg_catalog."C",
    slot integer,
    started_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    cancel_requested boolean DEFAULT false NOT NULL,
    cancel_reason text
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
ALTER TABLE jobs.job_lease FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job_lease ADD CONSTRAINT job_lease_pkey PRIMARY KEY (tenant_id, job_id);
ALTER TABLE jobs.job_lease ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job_lease TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job_lease USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,DELETE ON TABLE jobs.job_lease TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job_lease TO bpc_system;
GRANT UPDATE(cancel_requested) ON TABLE jobs.job_lease TO bpc_app;
GRANT UPDATE(cancel_reason) ON TABLE jobs.job_lease TO bpc_app;

-- jobs.job_ready ------------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_ready (
    seq bigint NOT NULL,
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    attempt integer NOT NULL,
    limit_key text NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
ALTER TABLE jobs.job_ready FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job_ready ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME jobs.job_ready_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE jobs.job_ready ADD CONSTRAINT job_ready_pkey PRIMARY KEY (tenant_id, limit_key, priority, seq);
ALTER TABLE jobs.job_ready ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job_ready TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job_ready USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE jobs.job_ready TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job_ready TO bpc_system;

-- jobs.job_slot -------------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_slot (
    tenant_id uuid NOT NULL,
    limit_key text NOT NULL COLLATE pg_catalog."C",
    slot integer NOT NULL,
    job_id uuid,
    closing boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE jobs.job_slot FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.job_slot ADD CONSTRAINT job_slot_pkey PRIMARY KEY (tenant_id, limit_key, slot);
ALTER TABLE jobs.job_slot ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.job_slot TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.job_slot USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE jobs.job_slot TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.job_slot TO bpc_system;
GRANT UPDATE(job_id) ON TABLE jobs.job_slot TO bpc_app;
GRANT UPDATE(closing) ON TABLE jobs.job_slot TO bpc_app;

-- jobs.job_status -----------------------------------------------------------------------------------------------
CREATE VIEW jobs.job_status WITH (security_invoker='true') AS
 SELECT j.tenant_id,
    j.job_id,
    j.type,
        CASE
            WHEN (l.job_id IS NOT NULL) THEN 'RUNNING'::text
            ELSE j.status
        END AS status,
    j.priority,
    (COALESCE(l.attempt, j.attempts) - j.uncounted) AS attempts,
    j.max_attempts,
    j.idempotency_key,
    j.limit_key,
    j.batch_id,
    j.progress,
    j.last_error,
    j.created_at,
    j.scheduled_at,
    COALESCE(l.started_at, j.started_at) AS started_at,
    j.finished_at,
    l.owner AS lease_owner,
    l.lease_until AS lease_expires_at,
    COALESCE(l.cancel_requested, false) AS cancel_requested,
    j.correlation_id,
    j.actor,
    j.service_id,
    j.subject_kind,
    j.subject_id,
    j.subject_group
   FROM (jobs.job j
     LEFT JOIN jobs.job_lease l ON (((l.tenant_id = j.tenant_id) AND (l.job_id = j.job_id))));
GRANT SELECT ON TABLE jobs.job_status TO bpc_app;

-- jobs.job_worker -----------------------------------------------------------------------------------------------
CREATE TABLE jobs.job_worker (
    owner text NOT NULL,
    lock_key bigint,
    types text[] NOT NULL,
    started_at timestamp with time zone NOT NULL,
    heartbeat_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE jobs.job_worker ADD CONSTRAINT job_worker_pkey PRIMARY KEY (owner);
GRANT SELECT ON TABLE jobs.job_worker TO bpc_app;
GRANT INSERT,DELETE,UPDATE ON TABLE jobs.job_worker TO bpc_system;

-- jobs.schedule -------------------------------------------------------------------------------------------------
CREATE TABLE jobs.schedule (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    cron text NOT NULL,
    time_zone text NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    payload json NOT NULL,
    priority smallint DEFAULT 2 NOT NULL,
    max_attempts integer NOT NULL,
    keep_seconds integer NOT NULL,
    catch_up text NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    last_at timestamp with time zone,
    next_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    limit_key text COLLATE pg_catalog."C",
    limit_at_most integer,
    subject_kind text COLLATE pg_catalog."C",
    subject_id text COLLATE pg_catalog."C",
    subject_group text COLLATE pg_catalog."C",
    CONSTRAINT schedule_catch_up_check CHECK ((catch_up = ANY (ARRAY['skip'::text, 'one'::text, 'all'::text]))),
    CONSTRAINT schedule_limit_at_most_check CHECK ((limit_at_most >= 1)),
    CONSTRAINT schedule_max_attempts_check CHECK ((max_attempts >= 1)),
    CONSTRAINT schedule_priority_check CHECK (((priority >= 0) AND (priority <= 3)))
);
ALTER TABLE jobs.schedule FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs.schedule ADD CONSTRAINT schedule_pkey PRIMARY KEY (tenant_id, name);
ALTER TABLE jobs.schedule ADD CONSTRAINT schedule_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX schedule_due ON jobs.schedule USING btree (next_at) WHERE (NOT paused);
ALTER TABLE jobs.schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_jobs ON jobs.schedule TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON jobs.schedule USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE jobs.schedule TO bpc_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE jobs.schedule TO bpc_system;
GRANT UPDATE(cron) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(time_zone) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(type) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(payload) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(priority) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(max_attempts) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(keep_seconds) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(catch_up) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(paused) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(last_at) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(next_at) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(limit_key) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(limit_at_most) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(subject_kind) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(subject_id) ON TABLE jobs.schedule TO bpc_app;
GRANT UPDATE(subject_group) ON TABLE jobs.schedule TO bpc_app;

-- log_checkpoints -----------------------------------------------------------------------------------------------
CREATE TABLE log_checkpoints (
    size bigint NOT NULL,
    root bytea NOT NULL,
    note bytea NOT NULL,
    has_quorum boolean NOT NULL,
    signed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT log_checkpoints_root_check CHECK ((octet_length(root) = 32)),
    CONSTRAINT log_checkpoints_size_check CHECK ((size >= 0))
);
ALTER TABLE log_checkpoints ADD CONSTRAINT log_checkpoints_pkey PRIMARY KEY (size);
CREATE INDEX log_checkpoints_with_quorum ON log_checkpoints USING btree (size) WHERE has_quorum;
CREATE TRIGGER log_checkpoints_never_deleted BEFORE DELETE ON log_checkpoints FOR EACH ROW EXECUTE FUNCTION refuse('a checkpoint of the log is never deleted');
CREATE TRIGGER log_checkpoints_not_truncated BEFORE TRUNCATE ON log_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION refuse('checkpoints of the log are never deleted');
CREATE TRIGGER log_checkpoints_stay BEFORE UPDATE ON log_checkpoints FOR EACH ROW WHEN ((old.has_quorum OR (NOT new.has_quorum) OR (old.root <> new.root) OR (old.size <> new.size))) EXECUTE FUNCTION refuse('a checkpoint of the log only gains its quorum');
GRANT SELECT ON TABLE log_checkpoints TO bpc_app;
GRANT INSERT ON TABLE log_checkpoints TO bpc_system;
GRANT UPDATE(note) ON TABLE log_checkpoints TO bpc_system;
GRANT UPDATE(has_quorum) ON TABLE log_checkpoints TO bpc_system;

-- log_entries ---------------------------------------------------------------------------------------------------
CREATE TABLE log_entries (
    log_index bigint NOT NULL,
    entry bytea NOT NULL,
    CONSTRAINT log_entries_log_index_check CHECK ((log_index >= 0))
);
ALTER TABLE log_entries ADD CONSTRAINT log_entries_pkey PRIMARY KEY (log_index);
CREATE TRIGGER log_entries_never_change BEFORE DELETE OR UPDATE ON log_entries FOR EACH ROW EXECUTE FUNCTION refuse('an entry of the log is never changed or deleted');
CREATE TRIGGER log_entries_not_truncated BEFORE TRUNCATE ON log_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse('entries of the log are never deleted');
GRANT SELECT ON TABLE log_entries TO bpc_app;
GRANT INSERT ON TABLE log_entries TO bpc_system;

-- log_openings --------------------------------------------------------------------------------------------------
CREATE TABLE log_openings (
    tenant_id uuid NOT NULL,
    log_index bigint NOT NULL,
    kind text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    statement bytea NOT NULL,
    salt bytea NOT NULL,
    CONSTRAINT log_openings_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT log_openings_log_index_check CHECK ((log_index >= 0)),
    CONSTRAINT log_openings_salt_check CHECK ((octet_length(salt) = 32))
);
ALTER TABLE log_openings FORCE ROW LEVEL SECURITY;
ALTER TABLE log_openings ADD CONSTRAINT log_openings_pkey PRIMARY KEY (tenant_id, log_index);
ALTER TABLE log_openings ADD CONSTRAINT log_openings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX log_openings_by_index ON log_openings USING btree (log_index);
CREATE INDEX log_openings_of_aggregate ON log_openings USING btree (tenant_id, aggregate_id, log_index);
CREATE TRIGGER log_openings_never_change BEFORE DELETE OR UPDATE ON log_openings FOR EACH ROW EXECUTE FUNCTION refuse('the opening of an entry is never changed or deleted');
CREATE TRIGGER log_openings_not_truncated BEFORE TRUNCATE ON log_openings FOR EACH STATEMENT EXECUTE FUNCTION refuse('openings of entries are never deleted');
ALTER TABLE log_openings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_openings USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY sequencer ON log_openings TO bpc_system USING (true) WITH CHECK (true);
GRANT SELECT ON TABLE log_openings TO bpc_app;
GRANT INSERT ON TABLE log_openings TO bpc_system;

-- log_outbox ----------------------------------------------------------------------------------------------------
CREATE TABLE log_outbox (
    tenant_id uuid NOT NULL,
    outbox_id uuid DEFAULT gen_random_uuid() NOT NULL,
    event_type text NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    aggregate_version bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    event_hash bytea NOT NULL,
    payload_canonical bytea NOT NULL,
    salt bytea DEFAULT (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) NOT NULL,
    CONSTRAINT log_outbox_aggregate_type_check CHECK ((aggregate_type <> ''::text)),
    CONSTRAINT log_outbox_aggregate_version_check CHECK ((aggregate_version > 0)),
    CONSTRAINT log_outbox_event_hash_check CHECK ((octet_length(event_hash) = 32)),
    CONSTRAINT log_outbox_event_type_check CHECK ((event_type <> ''::text)),
    CONSTRAINT log_outbox_salt_check CHECK ((octet_length(salt) = 32))
);
ALTER TABLE log_outbox FORCE ROW LEVEL SECURITY;
ALTER TABLE log_outbox ADD CONSTRAINT log_outbox_pkey PRIMARY KEY (tenant_id, outbox_id);
ALTER TABLE log_outbox ADD CONSTRAINT log_outbox_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX log_outbox_by_time ON log_outbox USING btree (occurred_at, outbox_id);
ALTER TABLE log_outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_outbox USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY sequencer ON log_outbox TO bpc_system USING (true) WITH CHECK (true);
GRANT SELECT,INSERT ON TABLE log_outbox TO bpc_app;
GRANT DELETE ON TABLE log_outbox TO bpc_system;

-- log_proofs ----------------------------------------------------------------------------------------------------
CREATE TABLE log_proofs (
    tenant_id uuid NOT NULL,
    log_index bigint NOT NULL,
    size bigint NOT NULL,
    hashes bytea NOT NULL,
    CONSTRAINT log_proofs_hashes_check CHECK (((octet_length(hashes) % 32) = 0)),
    CONSTRAINT log_proofs_size_check CHECK ((size > 0))
);
ALTER TABLE log_proofs FORCE ROW LEVEL SECURITY;
ALTER TABLE log_proofs ADD CONSTRAINT log_proofs_pkey PRIMARY KEY (tenant_id, log_index);
ALTER TABLE log_proofs ADD CONSTRAINT log_proofs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE log_proofs ADD CONSTRAINT log_proofs_tenant_id_log_index_fkey FOREIGN KEY (tenant_id, log_index) REFERENCES log_openings(tenant_id, log_index);
CREATE TRIGGER log_proofs_never_change BEFORE DELETE OR UPDATE ON log_proofs FOR EACH ROW EXECUTE FUNCTION refuse('a log proof is never changed or deleted');
CREATE TRIGGER log_proofs_not_truncated BEFORE TRUNCATE ON log_proofs FOR EACH STATEMENT EXECUTE FUNCTION refuse('log proofs are never deleted');
ALTER TABLE log_proofs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON log_proofs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY sequencer ON log_proofs TO bpc_system USING (true) WITH CHECK (true);
GRANT SELECT ON TABLE log_proofs TO bpc_app;
GRANT INSERT ON TABLE log_proofs TO bpc_system;

-- log_state -----------------------------------------------------------------------------------------------------
CREATE TABLE log_state (
    only_row boolean DEFAULT true NOT NULL,
    verifier_key text NOT NULL,
    began_at timestamp with time zone DEFAULT now() NOT NULL,
    listed_at timestamp with time zone,
    restored_at timestamp with time zone,
    CONSTRAINT log_state_only_row_check CHECK (only_row)
);
ALTER TABLE log_state ADD CONSTRAINT log_state_pkey PRIMARY KEY (only_row);
GRANT SELECT ON TABLE log_state TO bpc_app;
GRANT INSERT ON TABLE log_state TO bpc_system;
GRANT UPDATE(listed_at) ON TABLE log_state TO bpc_system;
GRANT UPDATE(restored_at) ON TABLE log_state TO bpc_system;

-- passport_exports ----------------------------------------------------------------------------------------------
CREATE TABLE passport_exports (
    tenant_id uuid NOT NULL,
    export_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    format text NOT NULL,
    audience text NOT NULL,
    status text DEFAULT 'PENDING'::text NOT NULL,
    mime_type text NOT NULL,
    file_name text NOT NULL,
    content bytea,
    sha256 hash256,
    last_error jsonb,
    job_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    finished_at timestamp with time zone,
    language text DEFAULT 'en'::text NOT NULL,
    CONSTRAINT passport_exports_audience_check CHECK ((audience = ANY (ARRAY['public'::text, 'interest'::text, 'authority'::text, 'tenant'::text]))),
    CONSTRAINT passport_exports_format_check CHECK ((format = ANY (ARRAY['PDF'::text, 'JSON_LD'::text, 'XML'::text, 'DATA_POINTS'::text, 'BUNDLE'::text]))),
    CONSTRAINT passport_exports_language_check CHECK ((language ~ '^[a-z]{2}$'::text)),
    CONSTRAINT passport_exports_ready_has_content CHECK ((((status = 'READY'::text) = (content IS NOT NULL)) AND ((content IS NULL) = (sha256 IS NULL)) AND ((status = 'FAILED'::text) = (last_error IS NOT NULL)) AND ((status = 'PENDING'::text) = (finished_at IS NULL)))),
    CONSTRAINT passport_exports_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'READY'::text, 'FAILED'::text])))
);
ALTER TABLE passport_exports ALTER COLUMN content SET STORAGE EXTERNAL;
ALTER TABLE passport_exports FORCE ROW LEVEL SECURITY;
ALTER TABLE passport_exports ADD CONSTRAINT passport_exports_pkey PRIMARY KEY (tenant_id, export_id);
ALTER TABLE passport_exports ADD CONSTRAINT passport_exports_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE passport_exports ADD CONSTRAINT passport_exports_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE passport_exports ADD CONSTRAINT passport_exports_tenant_id_passport_version_id_fkey FOREIGN KEY (tenant_id, passport_version_id) REFERENCES passport_versions(tenant_id, passport_version_id);
CREATE INDEX passport_exports_by_time ON passport_exports USING btree (tenant_id, passport_version_id, created_at, export_id);
CREATE INDEX passport_exports_over ON passport_exports USING btree (tenant_id, finished_at) WHERE (finished_at IS NOT NULL);
CREATE TRIGGER passport_exports_frozen BEFORE UPDATE OF tenant_id, export_id, passport_version_id, format, audience, language, mime_type, file_name, job_id, created_at, created_by ON passport_exports FOR EACH ROW EXECUTE FUNCTION refuse('what an export is of never changes');
CREATE TRIGGER passport_exports_not_undone BEFORE UPDATE OF status ON passport_exports FOR EACH ROW WHEN (((new.status = 'PENDING'::text) AND (old.status <> 'PENDING'::text))) EXECUTE FUNCTION refuse('an export that is over does not begin again');
CREATE TRIGGER passport_exports_written_once BEFORE UPDATE ON passport_exports FOR EACH ROW WHEN ((old.status = 'READY'::text)) EXECUTE FUNCTION refuse('an export that is ready never changes');
ALTER TABLE passport_exports ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passport_exports USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE passport_exports TO bpc_app;
GRANT DELETE ON TABLE passport_exports TO bpc_system;
GRANT UPDATE(status) ON TABLE passport_exports TO bpc_app;
GRANT UPDATE(content) ON TABLE passport_exports TO bpc_app;
GRANT UPDATE(sha256) ON TABLE passport_exports TO bpc_app;
GRANT UPDATE(last_error) ON TABLE passport_exports TO bpc_app;
GRANT UPDATE(finished_at) ON TABLE passport_exports TO bpc_app;

-- passport_versions ---------------------------------------------------------------------------------------------
CREATE TABLE passport_versions (
    tenant_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    passport_id uuid NOT NULL,
    status passport_status NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    activated_at timestamp with time zone,
    superseded_at timestamp with time zone,
    revoked_at timestamp with time zone,
    snapshot_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    compiler_build_id text NOT NULL,
    payload_canonical bytea NOT NULL,
    payload_hash hash256 NOT NULL,
    proof_canonical bytea NOT NULL,
    proof_root_hash hash256 NOT NULL,
    receipt_canonical bytea NOT NULL,
    receipt_hash hash256 NOT NULL,
    signature_alg text NOT NULL,
    signature bytea,
    signing_key_id text,
    qr_png bytea,
    qr_payload text,
    replayed_at timestamp with time zone,
    fail_count integer,
    warn_count integer,
    abandoned_at timestamp with time zone,
    abandon_reason text,
    CONSTRAINT passport_versions_abandon_reason_check CHECK ((abandon_reason <> ''::text)),
    CONSTRAINT passport_versions_fail_count_check CHECK ((fail_count >= 0)),
    CONSTRAINT passport_versions_signature_alg_check CHECK ((signature_alg = 'ED25519'::text)),
    CONSTRAINT passport_versions_signature_check CHECK ((octet_length(signature) = 64)),
    CONSTRAINT passport_versions_signed_has_signature CHECK ((((status = 'COMPILING'::passport_status) = (signature IS NULL)) AND ((signature IS NULL) OR (signing_key_id IS NOT NULL)))),
    CONSTRAINT passport_versions_warn_count_check CHECK ((warn_count >= 0))
);
ALTER TABLE passport_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_of_passport_key UNIQUE (tenant_id, passport_id, passport_version_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_payload_key UNIQUE (tenant_id, passport_id, payload_hash);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_pkey PRIMARY KEY (tenant_id, passport_version_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_signing_key_id_fkey FOREIGN KEY (signing_key_id) REFERENCES signing_keys(key_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_tenant_id_passport_id_fkey FOREIGN KEY (tenant_id, passport_id) REFERENCES passports(tenant_id, passport_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
ALTER TABLE passport_versions ADD CONSTRAINT passport_versions_tenant_id_snapshot_id_fkey FOREIGN KEY (tenant_id, snapshot_id) REFERENCES data_snapshots(tenant_id, snapshot_id);
CREATE INDEX passport_versions_abandoned ON passport_versions USING btree (tenant_id, abandoned_at) WHERE (abandoned_at IS NOT NULL);
CREATE INDEX passport_versions_active ON passport_versions USING btree (tenant_id, created_at, passport_version_id) WHERE (status = 'ACTIVE'::passport_status);
CREATE INDEX passport_versions_by_hash ON passport_versions USING btree (tenant_id, payload_hash);
CREATE INDEX passport_versions_by_time ON passport_versions USING btree (tenant_id, passport_id, created_at, passport_version_id);
CREATE INDEX passport_versions_compiling ON passport_versions USING btree (tenant_id, created_at, passport_version_id) WHERE (status = 'COMPILING'::passport_status);
CREATE INDEX passport_versions_ended ON passport_versions USING btree (tenant_id, GREATEST(superseded_at, revoked_at)) WHERE (status = ANY (ARRAY['SUPERSEDED'::passport_status, 'REVOKED'::passport_status]));
CREATE INDEX passport_versions_newest ON passport_versions USING btree (tenant_id, created_at, passport_version_id);
CREATE INDEX passport_versions_of_snapshot ON passport_versions USING btree (tenant_id, snapshot_id);
CREATE UNIQUE INDEX passport_versions_one_active ON passport_versions USING btree (tenant_id, passport_id) WHERE (status = 'ACTIVE'::passport_status);
CREATE INDEX passport_versions_revoked ON passport_versions USING btree (tenant_id, created_at, passport_version_id) WHERE (status = 'REVOKED'::passport_status);
CREATE INDEX passport_versions_signed ON passport_versions USING btree (tenant_id, created_at, passport_version_id) WHERE (status = 'SIGNED'::passport_status);
CREATE INDEX passport_versions_superseded ON passport_versions USING btree (tenant_id, created_at, passport_version_id) WHERE (status = 'SUPERSEDED'::passport_status);
CREATE INDEX passport_versions_to_replay ON passport_versions USING btree (tenant_id, replayed_at NULLS FIRST, passport_version_id) WHERE (status = 'ACTIVE'::passport_status);
CREATE TRIGGER passport_versions_abandoned_once BEFORE UPDATE OF abandoned_at, abandon_reason ON passport_versions FOR EACH ROW WHEN (((old.abandoned_at IS NOT NULL) OR (old.status <> 'COMPILING'::passport_status) OR (new.abandoned_at IS NULL) OR (new.abandon_reason IS NULL))) EXECUTE FUNCTION refuse('a passport version is given up once, and only before it is signed');
CREATE TRIGGER passport_versions_abandoned_stays BEFORE UPDATE OF status ON passport_versions FOR EACH ROW WHEN (((old.abandoned_at IS NOT NULL) AND (new.status <> old.status))) EXECUTE FUNCTION refuse('a passport version that was given up is never signed');
CREATE TRIGGER passport_versions_begin_with_a_status AFTER INSERT ON passport_versions FOR EACH ROW WHEN ((new.status = 'SIGNED'::passport_status)) EXECUTE FUNCTION follow_version_status();
CREATE TRIGGER passport_versions_counts_frozen BEFORE UPDATE OF fail_count, warn_count ON passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('a passport version never changes');
CREATE TRIGGER passport_versions_frozen BEFORE UPDATE OF tenant_id, passport_version_id, passport_id, created_at, snapshot_id, rule_package_version_id, compiler_build_id, payload_canonical, payload_hash, proof_canonical, proof_root_hash, receipt_hash, signature_alg ON passport_versions FOR EACH ROW EXECUTE FUNCTION refuse('a passport version never changes');
CREATE TRIGGER passport_versions_have_a_status AFTER UPDATE OF status ON passport_versions FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION follow_version_status();
CREATE TRIGGER passport_versions_not_truncated BEFORE TRUNCATE ON passport_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('passport versions are never deleted');
CREATE TRIGGER passport_versions_qr_once BEFORE UPDATE OF qr_png, qr_payload ON passport_versions FOR EACH ROW WHEN ((((old.qr_png IS NOT NULL) AND (new.qr_png IS DISTINCT FROM old.qr_png)) OR ((old.qr_payload IS NOT NULL) AND (new.qr_payload IS DISTINCT FROM old.qr_payload)))) EXECUTE FUNCTION refuse('a passport version''s QR code is written once');
CREATE TRIGGER passport_versions_signed_once BEFORE UPDATE OF signature, signing_key_id, receipt_canonical ON passport_versions FOR EACH ROW WHEN (((old.status <> 'COMPILING'::passport_status) OR (new.signature IS NULL) OR ((old.signing_key_id IS NOT NULL) AND (new.signing_key_id IS DISTINCT FROM old.signing_key_id)))) EXECUTE FUNCTION refuse('a passport version is signed once');
CREATE TRIGGER passport_versions_status_forward BEFORE UPDATE OF status ON passport_versions FOR EACH ROW WHEN (((new.status <> old.status) AND (((((((old.status <> 'COMPILING'::passport_status) OR (new.status <> 'SIGNED'::passport_status)) AND ((old.status <> 'SIGNED'::passport_status) OR (new.status <> 'ACTIVE'::passport_status))) AND ((old.status <> 'ACTIVE'::passport_status) OR (new.status <> 'SUPERSEDED'::passport_status))) AND ((old.status <> 'SIGNED'::passport_status) OR (new.status <> 'REVOKED'::passport_status))) AND ((old.status <> 'ACTIVE'::passport_status) OR (new.status <> 'REVOKED'::passport_status))) AND ((old.status <> 'SUPERSEDED'::passport_status) OR (new.status <> 'REVOKED'::passport_status))))) EXECUTE FUNCTION refuse('a passport version''s status only moves forward');
CREATE TRIGGER passport_versions_stay BEFORE DELETE ON passport_versions FOR EACH ROW WHEN (((CURRENT_USER <> 'bpc_system'::name) OR ((old.status <> ALL (ARRAY['SUPERSEDED'::passport_status, 'REVOKED'::passport_status])) AND (old.abandoned_at IS NULL)))) EXECUTE FUNCTION refuse('a passport version is only ever removed by retention');
CREATE TRIGGER passport_versions_times_once BEFORE UPDATE OF activated_at, superseded_at, revoked_at ON passport_versions FOR EACH ROW WHEN ((((old.activated_at IS NOT NULL) AND (new.activated_at IS DISTINCT FROM old.activated_at)) OR ((old.superseded_at IS NOT NULL) AND (new.superseded_at IS DISTINCT FROM old.superseded_at)) OR ((old.revoked_at IS NOT NULL) AND (new.revoked_at IS DISTINCT FROM old.revoked_at)))) EXECUTE FUNCTION refuse('a passport version''s time stamps are written once');
ALTER TABLE passport_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passport_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE passport_versions TO bpc_app;
GRANT DELETE ON TABLE passport_versions TO bpc_system;
GRANT UPDATE(status) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(activated_at) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(superseded_at) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(revoked_at) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(receipt_canonical) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(signature) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(signing_key_id) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(qr_png) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(qr_payload) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(replayed_at) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(abandoned_at) ON TABLE passport_versions TO bpc_app;
GRANT UPDATE(abandon_reason) ON TABLE passport_versions TO bpc_app;

-- passport_waivers ----------------------------------------------------------------------------------------------
CREATE TABLE passport_waivers (
    tenant_id uuid NOT NULL,
    waiver_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    code text NOT NULL,
    field text NOT NULL,
    entries integer NOT NULL,
    reason text NOT NULL,
    waived_at timestamp with time zone DEFAULT now() NOT NULL,
    waived_by uuid,
    CONSTRAINT passport_waivers_entries_check CHECK ((entries >= 1)),
    CONSTRAINT passport_waivers_field_check CHECK ((field <> ''::text)),
    CONSTRAINT passport_waivers_reason_check CHECK ((reason <> ''::text))
);
ALTER TABLE passport_waivers FORCE ROW LEVEL SECURITY;
ALTER TABLE passport_waivers ADD CONSTRAINT passport_waivers_once UNIQUE (tenant_id, passport_version_id, field, code);
ALTER TABLE passport_waivers ADD CONSTRAINT passport_waivers_pkey PRIMARY KEY (tenant_id, waiver_id);
ALTER TABLE passport_waivers ADD CONSTRAINT passport_waivers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE passport_waivers ADD CONSTRAINT passport_waivers_tenant_id_waived_by_fkey FOREIGN KEY (tenant_id, waived_by) REFERENCES actors(tenant_id, actor_id);
CREATE TRIGGER passport_waivers_never_change BEFORE DELETE OR UPDATE ON passport_waivers FOR EACH ROW EXECUTE FUNCTION refuse('a waiver is never changed or deleted');
CREATE TRIGGER passport_waivers_not_truncated BEFORE TRUNCATE ON passport_waivers FOR EACH STATEMENT EXECUTE FUNCTION refuse('waivers are never deleted');
ALTER TABLE passport_waivers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passport_waivers USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE passport_waivers TO bpc_app;

-- passports -----------------------------------------------------------------------------------------------------
CREATE TABLE passports (
    tenant_id uuid NOT NULL,
    passport_id uuid NOT NULL,
    battery_product_id uuid NOT NULL,
    current_passport_version_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE passports FORCE ROW LEVEL SECURITY;
ALTER TABLE passports ADD CONSTRAINT passports_pkey PRIMARY KEY (tenant_id, passport_id);
ALTER TABLE passports ADD CONSTRAINT passports_product_key UNIQUE (tenant_id, battery_product_id);
ALTER TABLE passports ADD CONSTRAINT passports_current_version_fkey FOREIGN KEY (tenant_id, passport_id, current_passport_version_id) REFERENCES passport_versions(tenant_id, passport_id, passport_version_id);
ALTER TABLE passports ADD CONSTRAINT passports_tenant_id_battery_product_id_fkey FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products(tenant_id, battery_product_id);
ALTER TABLE passports ADD CONSTRAINT passports_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX passports_active ON passports USING btree (tenant_id, created_at, passport_id) WHERE (current_passport_version_id IS NOT NULL);
CREATE INDEX passports_by_id ON passports USING btree (passport_id);
CREATE INDEX passports_by_time ON passports USING btree (tenant_id, created_at, passport_id);
CREATE INDEX passports_without_version ON passports USING btree (tenant_id, created_at, passport_id) WHERE (current_passport_version_id IS NULL);
ALTER TABLE passports ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON passports USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY public_lookup ON passports FOR SELECT TO bpc_owner USING (true);
GRANT SELECT,INSERT ON TABLE passports TO bpc_app;
GRANT UPDATE(current_passport_version_id) ON TABLE passports TO bpc_app;

-- permissions ---------------------------------------------------------------------------------------------------
CREATE TABLE permissions (
    permission text NOT NULL
);
ALTER TABLE permissions ADD CONSTRAINT permissions_pkey PRIMARY KEY (permission);
GRANT SELECT ON TABLE permissions TO bpc_app;

-- policies ------------------------------------------------------------------------------------------------------
CREATE TABLE policies (
    tenant_id uuid NOT NULL,
    policy_id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    CONSTRAINT policies_name_check CHECK ((name <> ''::text))
);
ALTER TABLE policies FORCE ROW LEVEL SECURITY;
ALTER TABLE policies ADD CONSTRAINT policies_name_key UNIQUE (tenant_id, name);
ALTER TABLE policies ADD CONSTRAINT policies_pkey PRIMARY KEY (tenant_id, policy_id);
ALTER TABLE policies ADD CONSTRAINT policies_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE policies ADD CONSTRAINT policies_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX policies_by_time ON policies USING btree (tenant_id, created_at, policy_id);
ALTER TABLE policies ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON policies USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE policies TO bpc_app;
GRANT UPDATE(name) ON TABLE policies TO bpc_app;

-- policy_versions -----------------------------------------------------------------------------------------------
CREATE TABLE policy_versions (
    tenant_id uuid NOT NULL,
    policy_version_id uuid NOT NULL,
    policy_id uuid NOT NULL,
    version integer NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    effect access_decision NOT NULL,
    target text NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    policy_json jsonb NOT NULL,
    policy_canonical bytea NOT NULL,
    policy_hash hash256 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT policy_versions_version_check CHECK ((version >= 1))
);
ALTER TABLE policy_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_pkey PRIMARY KEY (tenant_id, policy_version_id);
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_version_key UNIQUE (tenant_id, policy_id, version);
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE policy_versions ADD CONSTRAINT policy_versions_tenant_id_policy_id_fkey FOREIGN KEY (tenant_id, policy_id) REFERENCES policies(tenant_id, policy_id);
CREATE INDEX policy_versions_active ON policy_versions USING btree (tenant_id, priority) WHERE is_active;
CREATE INDEX policy_versions_by_time ON policy_versions USING btree (tenant_id, policy_id, created_at, policy_version_id);
CREATE TRIGGER policy_versions_frozen BEFORE UPDATE OF tenant_id, policy_version_id, policy_id, version, effect, target, priority, policy_json, policy_canonical, policy_hash, created_at ON policy_versions FOR EACH ROW EXECUTE FUNCTION refuse('a policy version never changes');
CREATE TRIGGER policy_versions_not_truncated BEFORE TRUNCATE ON policy_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('policy versions are never deleted');
CREATE TRIGGER policy_versions_renew_access AFTER INSERT OR DELETE OR UPDATE OF is_active ON policy_versions FOR EACH ROW EXECUTE FUNCTION renew_access_version();
CREATE TRIGGER policy_versions_stay BEFORE DELETE ON policy_versions FOR EACH ROW EXECUTE FUNCTION refuse('a policy version is never deleted');
ALTER TABLE policy_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON policy_versions FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON policy_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE policy_versions TO bpc_app;
GRANT UPDATE(is_active) ON TABLE policy_versions TO bpc_app;

-- rate_limit_buckets --------------------------------------------------------------------------------------------
CREATE TABLE rate_limit_buckets (
    tenant_id uuid NOT NULL,
    key_hash hash256 NOT NULL,
    capacity integer NOT NULL,
    tokens numeric NOT NULL,
    refill_per_second numeric NOT NULL,
    updated_at timestamp with time zone NOT NULL
);
ALTER TABLE rate_limit_buckets FORCE ROW LEVEL SECURITY;
ALTER TABLE rate_limit_buckets ADD CONSTRAINT rate_limit_buckets_pkey PRIMARY KEY (tenant_id, key_hash);
ALTER TABLE rate_limit_buckets ADD CONSTRAINT rate_limit_buckets_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE rate_limit_buckets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rate_limit_buckets USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE rate_limit_buckets TO bpc_app;

-- reading_deliveries --------------------------------------------------------------------------------------------
CREATE TABLE reading_deliveries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    source text NOT NULL,
    sender text,
    sha256 bytea NOT NULL,
    signature bytea,
    public_key bytea,
    received integer NOT NULL,
    received_at timestamp with time zone NOT NULL,
    received_by uuid,
    CONSTRAINT reading_deliveries_public_key_check CHECK ((octet_length(public_key) = 32)),
    CONSTRAINT reading_deliveries_received_check CHECK ((received > 0)),
    CONSTRAINT reading_deliveries_sender_check CHECK ((sender <> ''::text)),
    CONSTRAINT reading_deliveries_sha256_check CHECK ((octet_length(sha256) = 32)),
    CONSTRAINT reading_deliveries_signature_check CHECK ((octet_length(signature) = 64)),
    CONSTRAINT reading_deliveries_signed CHECK (((signature IS NULL) = (public_key IS NULL))),
    CONSTRAINT reading_deliveries_source_check CHECK ((source = ANY (ARRAY['BMS'::text, 'WORKSHOP'::text, 'OTHER'::text])))
);
ALTER TABLE reading_deliveries FORCE ROW LEVEL SECURITY;
ALTER TABLE reading_deliveries ADD CONSTRAINT reading_deliveries_pkey PRIMARY KEY (tenant_id, delivery_id);
ALTER TABLE reading_deliveries ADD CONSTRAINT reading_deliveries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE reading_deliveries ADD CONSTRAINT reading_deliveries_tenant_id_received_by_fkey FOREIGN KEY (tenant_id, received_by) REFERENCES actors(tenant_id, actor_id);
CREATE INDEX reading_deliveries_by_time ON reading_deliveries USING btree (tenant_id, received_at, delivery_id);
CREATE TRIGGER reading_deliveries_never_change BEFORE DELETE OR UPDATE ON reading_deliveries FOR EACH ROW EXECUTE FUNCTION refuse('a delivery of readings is never changed or deleted');
CREATE TRIGGER reading_deliveries_not_truncated BEFORE TRUNCATE ON reading_deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse('deliveries of readings are never deleted');
ALTER TABLE reading_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON reading_deliveries USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE reading_deliveries TO bpc_app;

-- removed_events ------------------------------------------------------------------------------------------------
CREATE TABLE removed_events (
    tenant_id uuid NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    aggregate_version bigint NOT NULL,
    event_hash hash256 NOT NULL,
    removed_by uuid NOT NULL,
    CONSTRAINT removed_events_aggregate_version_check CHECK ((aggregate_version >= 1))
);
ALTER TABLE removed_events FORCE ROW LEVEL SECURITY;
ALTER TABLE removed_events ADD CONSTRAINT removed_events_pkey PRIMARY KEY (tenant_id, aggregate_type, aggregate_id, aggregate_version);
ALTER TABLE removed_events ADD CONSTRAINT removed_events_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE removed_events ADD CONSTRAINT removed_events_tenant_id_removed_by_fkey FOREIGN KEY (tenant_id, removed_by) REFERENCES events(tenant_id, event_id);
CREATE INDEX removed_events_of_part ON removed_events USING btree (tenant_id, removed_by);
CREATE TRIGGER removed_events_never_change BEFORE DELETE OR UPDATE ON removed_events FOR EACH ROW EXECUTE FUNCTION refuse('what a removed event left never changes');
CREATE TRIGGER removed_events_not_truncated BEFORE TRUNCATE ON removed_events FOR EACH STATEMENT EXECUTE FUNCTION refuse('what removed events left is never deleted');
ALTER TABLE removed_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON removed_events USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT ON TABLE removed_events TO bpc_app;
GRANT INSERT ON TABLE removed_events TO bpc_system;

-- retention_anchors ---------------------------------------------------------------------------------------------
CREATE TABLE retention_anchors (
    tenant_id uuid NOT NULL,
    event_id uuid NOT NULL,
    aggregate_type text NOT NULL,
    aggregate_id uuid NOT NULL,
    aggregate_version bigint NOT NULL,
    event_hash hash256 NOT NULL,
    CONSTRAINT retention_anchors_aggregate_version_check CHECK ((aggregate_version >= 1))
);
ALTER TABLE retention_anchors FORCE ROW LEVEL SECURITY;
ALTER TABLE retention_anchors ADD CONSTRAINT retention_anchors_pkey PRIMARY KEY (tenant_id, event_id, aggregate_type, aggregate_id);
ALTER TABLE retention_anchors ADD CONSTRAINT retention_anchors_tenant_id_event_id_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES events(tenant_id, event_id);
ALTER TABLE retention_anchors ADD CONSTRAINT retention_anchors_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX retention_anchors_of_chain ON retention_anchors USING btree (tenant_id, aggregate_type, aggregate_id, aggregate_version);
CREATE TRIGGER retention_anchors_never_change BEFORE DELETE OR UPDATE ON retention_anchors FOR EACH ROW EXECUTE FUNCTION refuse('what retention vouches for never changes');
CREATE TRIGGER retention_anchors_not_truncated BEFORE TRUNCATE ON retention_anchors FOR EACH STATEMENT EXECUTE FUNCTION refuse('what retention vouches for is never deleted');
ALTER TABLE retention_anchors ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON retention_anchors USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT ON TABLE retention_anchors TO bpc_app;
GRANT INSERT ON TABLE retention_anchors TO bpc_system;

-- role_permissions ----------------------------------------------------------------------------------------------
CREATE TABLE role_permissions (
    tenant_id uuid NOT NULL,
    role_id uuid NOT NULL,
    permission text NOT NULL
);
ALTER TABLE role_permissions FORCE ROW LEVEL SECURITY;
ALTER TABLE role_permissions ADD CONSTRAINT role_permissions_pkey PRIMARY KEY (tenant_id, role_id, permission);
ALTER TABLE role_permissions ADD CONSTRAINT role_permissions_permission_fkey FOREIGN KEY (permission) REFERENCES permissions(permission);
ALTER TABLE role_permissions ADD CONSTRAINT role_permissions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE role_permissions ADD CONSTRAINT role_permissions_tenant_id_role_id_fkey FOREIGN KEY (tenant_id, role_id) REFERENCES roles(tenant_id, role_id);
CREATE TRIGGER role_permissions_renew_access AFTER INSERT OR DELETE OR UPDATE ON role_permissions FOR EACH ROW EXECUTE FUNCTION renew_access_version();
ALTER TABLE role_permissions ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON role_permissions FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON role_permissions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE role_permissions TO bpc_app;

-- roles ---------------------------------------------------------------------------------------------------------
CREATE TABLE roles (
    tenant_id uuid NOT NULL,
    role_id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT roles_name_check CHECK ((name <> ''::text))
);
ALTER TABLE roles FORCE ROW LEVEL SECURITY;
ALTER TABLE roles ADD CONSTRAINT roles_name_key UNIQUE (tenant_id, name);
ALTER TABLE roles ADD CONSTRAINT roles_pkey PRIMARY KEY (tenant_id, role_id);
ALTER TABLE roles ADD CONSTRAINT roles_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX roles_by_time ON roles USING btree (tenant_id, created_at, role_id);
CREATE TRIGGER roles_renew_access AFTER DELETE OR UPDATE OF name ON roles FOR EACH ROW EXECUTE FUNCTION renew_access_version();
ALTER TABLE roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY key_lookup ON roles FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON roles USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE roles TO bpc_app;
GRANT UPDATE(name) ON TABLE roles TO bpc_app;

-- rule_catalogues -----------------------------------------------------------------------------------------------
CREATE TABLE rule_catalogues (
    tenant_id uuid NOT NULL,
    rule_package_id uuid NOT NULL,
    language text NOT NULL,
    content bytea NOT NULL,
    sha256 hash256 NOT NULL,
    texts integer NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    CONSTRAINT rule_catalogues_language_check CHECK ((language ~ '^[a-z]{2}$'::text)),
    CONSTRAINT rule_catalogues_size_check CHECK ((octet_length(content) <= 1048576))
);
ALTER TABLE rule_catalogues FORCE ROW LEVEL SECURITY;
ALTER TABLE rule_catalogues ADD CONSTRAINT rule_catalogues_pkey PRIMARY KEY (tenant_id, rule_package_id, language);
ALTER TABLE rule_catalogues ADD CONSTRAINT rule_catalogues_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE rule_catalogues ADD CONSTRAINT rule_catalogues_tenant_id_rule_package_id_fkey FOREIGN KEY (tenant_id, rule_package_id) REFERENCES rule_packages(tenant_id, rule_package_id);
CREATE TRIGGER rule_catalogues_frozen BEFORE UPDATE OF tenant_id, rule_package_id, language ON rule_catalogues FOR EACH ROW EXECUTE FUNCTION refuse('what a catalogue is of never changes');
CREATE TRIGGER rule_catalogues_stay BEFORE DELETE ON rule_catalogues FOR EACH ROW EXECUTE FUNCTION refuse('a catalogue is replaced, never deleted');
ALTER TABLE rule_catalogues ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_catalogues USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE rule_catalogues TO bpc_app;
GRANT UPDATE(content) ON TABLE rule_catalogues TO bpc_app;
GRANT UPDATE(sha256) ON TABLE rule_catalogues TO bpc_app;
GRANT UPDATE(texts) ON TABLE rule_catalogues TO bpc_app;
GRANT UPDATE(stored_at) ON TABLE rule_catalogues TO bpc_app;

-- rule_fields ---------------------------------------------------------------------------------------------------
CREATE TABLE rule_fields (
    tenant_id uuid NOT NULL,
    rule_field_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    field_path text NOT NULL,
    field_type text NOT NULL,
    audiences text[] DEFAULT '{}'::text[] NOT NULL,
    required boolean DEFAULT true NOT NULL,
    label text,
    point text,
    citation text
);
ALTER TABLE rule_fields FORCE ROW LEVEL SECURITY;
ALTER TABLE rule_fields ADD CONSTRAINT rule_fields_path_key UNIQUE (tenant_id, rule_package_version_id, field_path);
ALTER TABLE rule_fields ADD CONSTRAINT rule_fields_pkey PRIMARY KEY (tenant_id, rule_field_id);
ALTER TABLE rule_fields ADD CONSTRAINT rule_fields_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE rule_fields ADD CONSTRAINT rule_fields_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
CREATE TRIGGER rule_fields_come_with_a_draft BEFORE INSERT ON rule_fields FOR EACH ROW EXECUTE FUNCTION refuse_unless_draft();
CREATE TRIGGER rule_fields_never_change BEFORE DELETE OR UPDATE ON rule_fields FOR EACH ROW EXECUTE FUNCTION refuse('a rule version''s fields never change');
CREATE TRIGGER rule_fields_not_truncated BEFORE TRUNCATE ON rule_fields FOR EACH STATEMENT EXECUTE FUNCTION refuse('rule fields are never deleted');
ALTER TABLE rule_fields ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_fields USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE rule_fields TO bpc_app;

-- rule_package_versions -----------------------------------------------------------------------------------------
CREATE TABLE rule_package_versions (
    tenant_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    rule_package_id uuid NOT NULL,
    version integer NOT NULL,
    status rule_pkg_status NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    published_at timestamp with time zone,
    compiler_min_build text NOT NULL,
    dsl_source bytea NOT NULL,
    dsl_sha256 hash256 NOT NULL,
    tests_source bytea NOT NULL,
    tests_sha256 hash256 NOT NULL,
    CONSTRAINT rule_package_versions_version_check CHECK ((version >= 1))
);
ALTER TABLE rule_package_versions FORCE ROW LEVEL SECURITY;
ALTER TABLE rule_package_versions ADD CONSTRAINT rule_package_versions_pkey PRIMARY KEY (tenant_id, rule_package_version_id);
ALTER TABLE rule_package_versions ADD CONSTRAINT rule_package_versions_sources_key UNIQUE (tenant_id, dsl_sha256, tests_sha256);
ALTER TABLE rule_package_versions ADD CONSTRAINT rule_package_versions_version_key UNIQUE (tenant_id, rule_package_id, version);
ALTER TABLE rule_package_versions ADD CONSTRAINT rule_package_versions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE rule_package_versions ADD CONSTRAINT rule_package_versions_tenant_id_rule_package_id_fkey FOREIGN KEY (tenant_id, rule_package_id) REFERENCES rule_packages(tenant_id, rule_package_id);
CREATE INDEX rule_package_versions_by_time ON rule_package_versions USING btree (tenant_id, rule_package_id, created_at, rule_package_version_id);
CREATE TRIGGER rule_package_versions_frozen BEFORE UPDATE OF tenant_id, rule_package_version_id, rule_package_id, version, created_at, compiler_min_build, dsl_source, dsl_sha256, tests_source, tests_sha256 ON rule_package_versions FOR EACH ROW EXECUTE FUNCTION refuse('a rule version never changes');
CREATE TRIGGER rule_package_versions_not_truncated BEFORE TRUNCATE ON rule_package_versions FOR EACH STATEMENT EXECUTE FUNCTION refuse('rule versions are never deleted');
CREATE TRIGGER rule_package_versions_published_once BEFORE UPDATE OF published_at ON rule_package_versions FOR EACH ROW WHEN (((old.published_at IS NOT NULL) AND (new.published_at IS DISTINCT FROM old.published_at))) EXECUTE FUNCTION refuse('a rule version is published once');
CREATE TRIGGER rule_package_versions_status_forward BEFORE UPDATE OF status ON rule_package_versions FOR EACH ROW WHEN (((new.status < old.status) OR ((new.status = 'PUBLISHED'::rule_pkg_status) AND (old.status <> ALL (ARRAY['VALIDATED'::rule_pkg_status, 'PUBLISHED'::rule_pkg_status]))) OR ((new.status = 'DEPRECATED'::rule_pkg_status) AND (old.status <> ALL (ARRAY['PUBLISHED'::rule_pkg_status, 'DEPRECATED'::rule_pkg_status]))))) EXECUTE FUNCTION refuse('a rule version''s status only moves forward');
CREATE TRIGGER rule_package_versions_stay BEFORE DELETE ON rule_package_versions FOR EACH ROW EXECUTE FUNCTION refuse('a rule version is retired, never deleted');
ALTER TABLE rule_package_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_package_versions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE rule_package_versions TO bpc_app;
GRANT UPDATE(status) ON TABLE rule_package_versions TO bpc_app;
GRANT UPDATE(published_at) ON TABLE rule_package_versions TO bpc_app;

-- rule_packages -------------------------------------------------------------------------------------------------
CREATE TABLE rule_packages (
    tenant_id uuid NOT NULL,
    rule_package_id uuid NOT NULL,
    name text NOT NULL,
    description text,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    CONSTRAINT rule_packages_name_check CHECK ((name <> ''::text))
);
ALTER TABLE rule_packages FORCE ROW LEVEL SECURITY;
ALTER TABLE rule_packages ADD CONSTRAINT rule_packages_name_key UNIQUE (tenant_id, name);
ALTER TABLE rule_packages ADD CONSTRAINT rule_packages_pkey PRIMARY KEY (tenant_id, rule_package_id);
ALTER TABLE rule_packages ADD CONSTRAINT rule_packages_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE rule_packages ADD CONSTRAINT rule_packages_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX rule_packages_by_text ON rule_packages USING gin (search_grams(tenant_id, ((name || ' '::text) || COALESCE(description, ''::text)), 2));
CREATE INDEX rule_packages_by_time ON rule_packages USING btree (tenant_id, created_at, rule_package_id);
CREATE INDEX rule_packages_inactive ON rule_packages USING btree (tenant_id, created_at, rule_package_id) WHERE (NOT is_active);
ALTER TABLE rule_packages ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_packages USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY text_search ON rule_packages FOR SELECT TO bpc_owner USING (true);
GRANT SELECT,INSERT ON TABLE rule_packages TO bpc_app;
GRANT UPDATE(name) ON TABLE rule_packages TO bpc_app;
GRANT UPDATE(description) ON TABLE rule_packages TO bpc_app;
GRANT UPDATE(is_active) ON TABLE rule_packages TO bpc_app;

-- rule_tests_runs -----------------------------------------------------------------------------------------------
CREATE TABLE rule_tests_runs (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    rule_package_version_id uuid NOT NULL,
    seed bigint NOT NULL,
    cases integer NOT NULL,
    passed integer NOT NULL,
    failed integer NOT NULL,
    discarded integer NOT NULL,
    status text NOT NULL,
    coverage jsonb,
    failure jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT rule_tests_runs_cases_check CHECK ((cases >= 0)),
    CONSTRAINT rule_tests_runs_discarded_check CHECK ((discarded >= 0)),
    CONSTRAINT rule_tests_runs_failed_check CHECK ((failed >= 0)),
    CONSTRAINT rule_tests_runs_passed_check CHECK ((passed >= 0)),
    CONSTRAINT rule_tests_runs_status_check CHECK ((status = ANY (ARRAY['PASSED'::text, 'FAILED'::text])))
);
ALTER TABLE rule_tests_runs FORCE ROW LEVEL SECURITY;
ALTER TABLE rule_tests_runs ADD CONSTRAINT rule_tests_runs_pkey PRIMARY KEY (tenant_id, run_id);
ALTER TABLE rule_tests_runs ADD CONSTRAINT rule_tests_runs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE rule_tests_runs ADD CONSTRAINT rule_tests_runs_tenant_id_rule_package_version_id_fkey FOREIGN KEY (tenant_id, rule_package_version_id) REFERENCES rule_package_versions(tenant_id, rule_package_version_id);
CREATE INDEX rule_tests_runs_by_time ON rule_tests_runs USING btree (tenant_id, rule_package_version_id, created_at, run_id);
CREATE TRIGGER rule_tests_runs_never_change BEFORE DELETE OR UPDATE ON rule_tests_runs FOR EACH ROW EXECUTE FUNCTION refuse('a test run''s result never changes');
CREATE TRIGGER rule_tests_runs_not_truncated BEFORE TRUNCATE ON rule_tests_runs FOR EACH STATEMENT EXECUTE FUNCTION refuse('test runs are never deleted');
ALTER TABLE rule_tests_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rule_tests_runs USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE rule_tests_runs TO bpc_app;

-- schema_migrations ---------------------------------------------------------------------------------------------
CREATE TABLE schema_migrations (
    component text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE schema_migrations ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (component, version);
GRANT SELECT ON TABLE schema_migrations TO PUBLIC;

-- signing_keys --------------------------------------------------------------------------------------------------
CREATE TABLE signing_keys (
    key_id text NOT NULL,
    public_key bytea NOT NULL,
    status signing_key_status DEFAULT 'ACTIVE'::signing_key_status NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone,
    owner_tenant_id uuid,
    valid_from timestamp with time zone,
    valid_until timestamp with time zone,
    compromised_since timestamp with time zone,
    CONSTRAINT signing_keys_check CHECK (((status = 'RETIRED'::signing_key_status) = (retired_at IS NOT NULL))),
    CONSTRAINT signing_keys_key_id_check CHECK ((key_id <> ''::text)),
    CONSTRAINT signing_keys_public_key_check CHECK ((octet_length(public_key) = 32)),
    CONSTRAINT signing_keys_window_check CHECK (((valid_until IS NULL) OR (valid_from IS NULL) OR (valid_from < valid_until)))
);
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (key_id);
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_owner_tenant_id_fkey FOREIGN KEY (owner_tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX signing_keys_of_tenant ON signing_keys USING btree (owner_tenant_id, created_at DESC) WHERE (owner_tenant_id IS NOT NULL);
CREATE TRIGGER signing_keys_compromised BEFORE UPDATE OF status, compromised_since ON signing_keys FOR EACH ROW WHEN ((((old.compromised_since IS NOT NULL) AND ((new.status IS DISTINCT FROM old.status) OR (new.compromised_since > old.compromised_since))) OR (((new.status)::text = 'COMPROMISED'::text) <> (new.compromised_since IS NOT NULL)))) EXECUTE FUNCTION refuse('a compromised signing key stays compromised');
CREATE TRIGGER signing_keys_frozen BEFORE UPDATE OF key_id, public_key, created_at, owner_tenant_id, valid_from, valid_until ON signing_keys FOR EACH ROW EXECUTE FUNCTION refuse('a signing key never changes');
CREATE TRIGGER signing_keys_not_truncated BEFORE TRUNCATE ON signing_keys FOR EACH STATEMENT EXECUTE FUNCTION refuse('signing keys are never deleted');
CREATE TRIGGER signing_keys_retired BEFORE UPDATE OF status, retired_at ON signing_keys FOR EACH ROW WHEN (((old.status = 'RETIRED'::signing_key_status) AND ((new.status)::text <> 'COMPROMISED'::text))) EXECUTE FUNCTION refuse('a retired signing key stays retired');
CREATE TRIGGER signing_keys_stay BEFORE DELETE ON signing_keys FOR EACH ROW EXECUTE FUNCTION refuse('a signing key is retired, never deleted');
GRANT SELECT ON TABLE signing_keys TO bpc_app;
GRANT INSERT ON TABLE signing_keys TO bpc_system;
GRANT UPDATE(status) ON TABLE signing_keys TO bpc_system;
GRANT UPDATE(retired_at) ON TABLE signing_keys TO bpc_system;
GRANT UPDATE(compromised_since) ON TABLE signing_keys TO bpc_system;

-- snapshot_items ------------------------------------------------------------------------------------------------
CREATE TABLE snapshot_items (
    tenant_id uuid NOT NULL,
    snapshot_id uuid NOT NULL,
    fact_id uuid NOT NULL,
    is_reserved boolean DEFAULT false NOT NULL
);
ALTER TABLE snapshot_items FORCE ROW LEVEL SECURITY;
ALTER TABLE snapshot_items ADD CONSTRAINT snapshot_items_pkey PRIMARY KEY (tenant_id, snapshot_id, fact_id);
ALTER TABLE snapshot_items ADD CONSTRAINT snapshot_items_tenant_id_fact_id_fkey FOREIGN KEY (tenant_id, fact_id) REFERENCES facts(tenant_id, fact_id);
ALTER TABLE snapshot_items ADD CONSTRAINT snapshot_items_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE snapshot_items ADD CONSTRAINT snapshot_items_tenant_id_snapshot_id_fkey FOREIGN KEY (tenant_id, snapshot_id) REFERENCES data_snapshots(tenant_id, snapshot_id);
CREATE INDEX snapshot_items_of_fact ON snapshot_items USING btree (tenant_id, fact_id);
CREATE TRIGGER snapshot_items_never_change BEFORE UPDATE ON snapshot_items FOR EACH ROW EXECUTE FUNCTION refuse('a snapshot''s item is added or removed, never changed');
CREATE TRIGGER snapshot_items_not_truncated BEFORE TRUNCATE ON snapshot_items FOR EACH STATEMENT EXECUTE FUNCTION refuse('snapshots'' items are never deleted at once');
CREATE TRIGGER snapshot_items_sealed BEFORE INSERT OR DELETE ON snapshot_items FOR EACH ROW EXECUTE FUNCTION refuse_when_sealed();
ALTER TABLE snapshot_items ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON snapshot_items USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE snapshot_items TO bpc_app;

-- status_entries ------------------------------------------------------------------------------------------------
CREATE TABLE status_entries (
    tenant_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    list_id uuid NOT NULL,
    list_index integer NOT NULL,
    state integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    statement_due boolean DEFAULT true NOT NULL,
    CONSTRAINT status_entries_list_index_check CHECK (((list_index >= 0) AND (list_index < 131072))),
    CONSTRAINT status_entries_state_check CHECK (((state >= 0) AND (state <= 3)))
);
ALTER TABLE status_entries FORCE ROW LEVEL SECURITY;
ALTER TABLE status_entries ADD CONSTRAINT status_entries_pkey PRIMARY KEY (tenant_id, passport_version_id);
ALTER TABLE status_entries ADD CONSTRAINT status_entries_tenant_id_list_id_list_index_key UNIQUE (tenant_id, list_id, list_index);
ALTER TABLE status_entries ADD CONSTRAINT status_entries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE status_entries ADD CONSTRAINT status_entries_tenant_id_list_id_fkey FOREIGN KEY (tenant_id, list_id) REFERENCES status_lists(tenant_id, list_id);
CREATE INDEX status_entries_due ON status_entries USING btree (tenant_id) WHERE statement_due;
CREATE INDEX status_entries_not_in_force ON status_entries USING btree (tenant_id, list_id) WHERE (state <> 0);
CREATE TRIGGER status_entries_forward BEFORE UPDATE OF state ON status_entries FOR EACH ROW WHEN (((new.state <> old.state) AND ((new.state = 0) OR (old.state = 2) OR ((old.state = 3) AND (new.state = 1))))) EXECUTE FUNCTION refuse('the status of a version is not taken back');
CREATE TRIGGER status_entries_keep_their_index BEFORE UPDATE OF tenant_id, passport_version_id, list_id, list_index ON status_entries FOR EACH ROW EXECUTE FUNCTION refuse('a version keeps its index in the status list');
CREATE TRIGGER status_entries_never_deleted BEFORE DELETE ON status_entries FOR EACH ROW EXECUTE FUNCTION refuse('a version keeps its index in the status list');
CREATE TRIGGER status_entries_never_emptied BEFORE TRUNCATE ON status_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse('versions keep their indices in status lists');
ALTER TABLE status_entries ENABLE ROW LEVEL SECURITY;
CREATE POLICY due_for_all ON status_entries FOR SELECT TO bpc_system USING (true);
CREATE POLICY own_tenant ON status_entries USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE status_entries TO bpc_app;
GRANT UPDATE(state) ON TABLE status_entries TO bpc_app;
GRANT UPDATE(since) ON TABLE status_entries TO bpc_app;
GRANT UPDATE(statement_due) ON TABLE status_entries TO bpc_app;

-- status_lists --------------------------------------------------------------------------------------------------
CREATE TABLE status_lists (
    tenant_id uuid NOT NULL,
    list_id uuid DEFAULT gen_random_uuid() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    document bytea,
    signed_at timestamp with time zone,
    valid_until timestamp with time zone,
    CONSTRAINT status_lists_check CHECK (((document IS NULL) = (signed_at IS NULL))),
    CONSTRAINT status_lists_check1 CHECK (((document IS NULL) = (valid_until IS NULL))),
    CONSTRAINT status_lists_check2 CHECK ((valid_until <= (signed_at + '24:00:00'::interval)))
);
ALTER TABLE status_lists FORCE ROW LEVEL SECURITY;
ALTER TABLE status_lists ADD CONSTRAINT status_lists_pkey PRIMARY KEY (tenant_id, list_id);
ALTER TABLE status_lists ADD CONSTRAINT status_lists_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX status_lists_by_id ON status_lists USING btree (list_id);
CREATE INDEX status_lists_newest ON status_lists USING btree (tenant_id, created_at DESC);
CREATE TRIGGER status_lists_never_deleted BEFORE DELETE ON status_lists FOR EACH ROW EXECUTE FUNCTION refuse('a status list is never deleted');
CREATE TRIGGER status_lists_never_emptied BEFORE TRUNCATE ON status_lists FOR EACH STATEMENT EXECUTE FUNCTION refuse('status lists are never deleted');
ALTER TABLE status_lists ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON status_lists USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY signed_for_all ON status_lists FOR SELECT TO bpc_system USING (true);
GRANT SELECT,INSERT ON TABLE status_lists TO bpc_app;
GRANT UPDATE(document) ON TABLE status_lists TO bpc_system;
GRANT UPDATE(signed_at) ON TABLE status_lists TO bpc_system;
GRANT UPDATE(valid_until) ON TABLE status_lists TO bpc_system;

-- status_statements ---------------------------------------------------------------------------------------------
CREATE TABLE status_statements (
    tenant_id uuid NOT NULL,
    passport_version_id uuid NOT NULL,
    state integer NOT NULL,
    document bytea NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    CONSTRAINT status_statements_state_check CHECK (((state >= 0) AND (state <= 3)))
);
ALTER TABLE status_statements FORCE ROW LEVEL SECURITY;
ALTER TABLE status_statements ADD CONSTRAINT status_statements_pkey PRIMARY KEY (tenant_id, passport_version_id, state, signed_at);
ALTER TABLE status_statements ADD CONSTRAINT status_statements_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE status_statements ADD CONSTRAINT status_statements_tenant_id_passport_version_id_fkey FOREIGN KEY (tenant_id, passport_version_id) REFERENCES status_entries(tenant_id, passport_version_id);
CREATE INDEX status_statements_of_version ON status_statements USING btree (passport_version_id, state);
CREATE TRIGGER status_statements_never_change BEFORE DELETE OR UPDATE ON status_statements FOR EACH ROW EXECUTE FUNCTION refuse('a signed statement is never changed or deleted');
CREATE TRIGGER status_statements_not_truncated BEFORE TRUNCATE ON status_statements FOR EACH STATEMENT EXECUTE FUNCTION refuse('signed statements are never deleted');
ALTER TABLE status_statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON status_statements USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
CREATE POLICY signed_for_all ON status_statements FOR SELECT TO bpc_system USING (true);
GRANT SELECT ON TABLE status_statements TO bpc_app;
GRANT INSERT ON TABLE status_statements TO bpc_system;

-- suppliers -----------------------------------------------------------------------------------------------------
CREATE TABLE suppliers (
    tenant_id uuid NOT NULL,
    supplier_id uuid NOT NULL,
    name text NOT NULL,
    number_locale text,
    rank integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT suppliers_name_check CHECK ((name <> ''::text)),
    CONSTRAINT suppliers_number_locale_check CHECK ((number_locale = ANY (ARRAY['comma'::text, 'point'::text]))),
    CONSTRAINT suppliers_rank_check CHECK ((rank >= 1))
);
ALTER TABLE suppliers FORCE ROW LEVEL SECURITY;
ALTER TABLE suppliers ADD CONSTRAINT suppliers_name_key UNIQUE (tenant_id, name);
ALTER TABLE suppliers ADD CONSTRAINT suppliers_pkey PRIMARY KEY (tenant_id, supplier_id);
ALTER TABLE suppliers ADD CONSTRAINT suppliers_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX suppliers_by_time ON suppliers USING btree (tenant_id, created_at, supplier_id);
ALTER TABLE suppliers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON suppliers USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE suppliers TO bpc_app;
GRANT UPDATE(number_locale) ON TABLE suppliers TO bpc_app;
GRANT UPDATE(rank) ON TABLE suppliers TO bpc_app;

-- tenant_settings -----------------------------------------------------------------------------------------------
CREATE TABLE tenant_settings (
    tenant_id uuid NOT NULL,
    activation_blocked_by text DEFAULT 'FAIL'::text NOT NULL,
    minimum_branch_coverage_pct integer DEFAULT 80 NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_by uuid,
    four_eyes text[] DEFAULT '{}'::text[] NOT NULL,
    bundles_for text DEFAULT 'NOBODY'::text NOT NULL,
    request_words_days integer DEFAULT 365 NOT NULL,
    brand_name text,
    brand_palette text DEFAULT 'standard'::text NOT NULL,
    brand_logo bytea,
    CONSTRAINT tenant_settings_blocked_by_check CHECK ((activation_blocked_by = ANY (ARRAY['FAIL'::text, 'FAIL_AND_WARN'::text, 'NOTHING'::text]))),
    CONSTRAINT tenant_settings_brand_logo_check CHECK (((length(brand_logo) >= 1) AND (length(brand_logo) <= 250000))),
    CONSTRAINT tenant_settings_brand_name_check CHECK (((length(brand_name) >= 1) AND (length(brand_name) <= 60))),
    CONSTRAINT tenant_settings_bundles_for_check CHECK ((bundles_for = ANY (ARRAY['NOBODY'::text, 'AUTHORITIES'::text, 'GRANTEES'::text, 'EVERYBODY'::text]))),
    CONSTRAINT tenant_settings_coverage_check CHECK (((minimum_branch_coverage_pct >= 0) AND (minimum_branch_coverage_pct <= 100))),
    CONSTRAINT tenant_settings_request_words_days_check CHECK (((request_words_days >= 1) AND (request_words_days <= 3650)))
);
ALTER TABLE tenant_settings FORCE ROW LEVEL SECURITY;
ALTER TABLE tenant_settings ADD CONSTRAINT tenant_settings_pkey PRIMARY KEY (tenant_id);
ALTER TABLE tenant_settings ADD CONSTRAINT tenant_settings_tenant_id_changed_by_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE tenant_settings ADD CONSTRAINT tenant_settings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE tenant_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant_settings USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(activation_blocked_by) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(minimum_branch_coverage_pct) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(changed_at) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(changed_by) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(four_eyes) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(bundles_for) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(request_words_days) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(brand_name) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(brand_palette) ON TABLE tenant_settings TO bpc_app;
GRANT UPDATE(brand_logo) ON TABLE tenant_settings TO bpc_app;

-- tenants -------------------------------------------------------------------------------------------------------
CREATE TABLE tenants (
    tenant_id uuid NOT NULL,
    slug text NOT NULL,
    name text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    storage_quota_bytes bigint,
    public_host text,
    access_version uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT tenants_name_check CHECK ((name <> ''::text)),
    CONSTRAINT tenants_public_host_check CHECK ((public_host ~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$'::text)),
    CONSTRAINT tenants_slug_form CHECK ((slug ~ '^[a-z0-9-]{3,64}$'::text)),
    CONSTRAINT tenants_storage_quota_check CHECK ((storage_quota_bytes >= 0))
);
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
ALTER TABLE tenants ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id);
ALTER TABLE tenants ADD CONSTRAINT tenants_slug_key UNIQUE (slug);
CREATE UNIQUE INDEX tenants_public_host_key ON tenants USING btree (public_host) WHERE (public_host IS NOT NULL);
CREATE TRIGGER tenants_renew_access BEFORE UPDATE OF is_active ON tenants FOR EACH ROW WHEN ((new.is_active IS DISTINCT FROM old.is_active)) EXECUTE FUNCTION renew_own_access_version();
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY access_changes ON tenants FOR UPDATE TO bpc_owner USING (true);
CREATE POLICY all_tenants ON tenants TO bpc_system USING (true) WITH CHECK (true);
CREATE POLICY key_lookup ON tenants FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON tenants USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT ON TABLE tenants TO bpc_app;
GRANT INSERT ON TABLE tenants TO bpc_system;
GRANT UPDATE(name) ON TABLE tenants TO bpc_system;
GRANT UPDATE(is_active) ON TABLE tenants TO bpc_system;
GRANT UPDATE(storage_quota_bytes) ON TABLE tenants TO bpc_system;
GRANT UPDATE(public_host) ON TABLE tenants TO bpc_system;

-- view_grants ---------------------------------------------------------------------------------------------------
CREATE TABLE view_grants (
    tenant_id uuid NOT NULL,
    view_grant_id uuid NOT NULL,
    grantee text NOT NULL,
    audience text NOT NULL,
    scope text NOT NULL,
    passport_id uuid,
    battery_id uuid,
    terms text,
    may_delegate boolean DEFAULT false NOT NULL,
    parent_id uuid,
    view_request_id uuid,
    code_prefix text NOT NULL,
    code_hash hash256 NOT NULL,
    pepper_id text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by uuid,
    expires_at timestamp with time zone NOT NULL,
    terms_accepted_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by uuid,
    reason text,
    CONSTRAINT view_grants_audience_check CHECK ((audience = ANY (ARRAY['interest'::text, 'authority'::text]))),
    CONSTRAINT view_grants_ends CHECK ((expires_at > created_at)),
    CONSTRAINT view_grants_grantee_check CHECK ((grantee <> ''::text)),
    CONSTRAINT view_grants_one_level CHECK (((parent_id IS NULL) OR (NOT may_delegate))),
    CONSTRAINT view_grants_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT view_grants_scope CHECK ((((scope = 'MODEL'::text) = (passport_id IS NOT NULL)) AND ((scope = 'ITEM'::text) = (battery_id IS NOT NULL)))),
    CONSTRAINT view_grants_scope_check CHECK ((scope = ANY (ARRAY['ITEM'::text, 'MODEL'::text, 'ALL'::text]))),
    CONSTRAINT view_grants_terms_check CHECK ((terms <> ''::text))
);
ALTER TABLE view_grants FORCE ROW LEVEL SECURITY;
ALTER TABLE view_grants ADD CONSTRAINT view_grants_one_for_a_request UNIQUE (tenant_id, view_request_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_pkey PRIMARY KEY (tenant_id, view_grant_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_parent_id_fkey FOREIGN KEY (tenant_id, parent_id) REFERENCES view_grants(tenant_id, view_grant_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_passport_id_fkey FOREIGN KEY (tenant_id, passport_id) REFERENCES passports(tenant_id, passport_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_revoked_by_fkey FOREIGN KEY (tenant_id, revoked_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE view_grants ADD CONSTRAINT view_grants_tenant_id_view_request_id_fkey FOREIGN KEY (tenant_id, view_request_id) REFERENCES view_requests(tenant_id, view_request_id);
CREATE INDEX view_grants_by_prefix ON view_grants USING btree (code_prefix);
CREATE INDEX view_grants_by_time ON view_grants USING btree (tenant_id, created_at, view_grant_id);
CREATE INDEX view_grants_of_parent ON view_grants USING btree (tenant_id, parent_id) WHERE (parent_id IS NOT NULL);
CREATE TRIGGER view_grants_final BEFORE UPDATE ON view_grants FOR EACH ROW WHEN (((old.revoked_at IS NOT NULL) OR (((((((((((((((old.tenant_id IS DISTINCT FROM new.tenant_id) OR (old.view_grant_id IS DISTINCT FROM new.view_grant_id)) OR (old.grantee IS DISTINCT FROM new.grantee)) OR (old.audience IS DISTINCT FROM new.audience)) OR (old.scope IS DISTINCT FROM new.scope)) OR (old.passport_id IS DISTINCT FROM new.passport_id)) OR (old.battery_id IS DISTINCT FROM new.battery_id)) OR (old.terms IS DISTINCT FROM new.terms)) OR (old.may_delegate IS DISTINCT FROM new.may_delegate)) OR (old.parent_id IS DISTINCT FROM new.parent_id)) OR (old.view_request_id IS DISTINCT FROM new.view_request_id)) OR (old.code_prefix IS DISTINCT FROM new.code_prefix)) OR (old.created_at IS DISTINCT FROM new.created_at)) OR (old.created_by IS DISTINCT FROM new.created_by)) OR (old.expires_at IS DISTINCT FROM new.expires_at)) OR ((old.terms_accepted_at IS NOT NULL) AND (old.terms_accepted_at IS DISTINCT FROM new.terms_accepted_at)) OR (((new.code_hash)::bytea IS DISTINCT FROM (old.code_hash)::bytea) AND (new.pepper_id = old.pepper_id)))) EXECUTE FUNCTION refuse('a grant never becomes another one, and its end is final');
CREATE TRIGGER view_grants_never_deleted BEFORE DELETE ON view_grants FOR EACH ROW EXECUTE FUNCTION refuse('a record of who may see what is never deleted');
CREATE TRIGGER view_grants_not_truncated BEFORE TRUNCATE ON view_grants FOR EACH STATEMENT EXECUTE FUNCTION refuse('records of who may see what are never deleted');
ALTER TABLE view_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY code_lookup ON view_grants FOR SELECT TO bpc_owner USING (true);
CREATE POLICY own_tenant ON view_grants USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE view_grants TO bpc_app;
GRANT UPDATE(code_hash) ON TABLE view_grants TO bpc_app;
GRANT UPDATE(pepper_id) ON TABLE view_grants TO bpc_app;
GRANT UPDATE(terms_accepted_at) ON TABLE view_grants TO bpc_app;
GRANT UPDATE(revoked_at) ON TABLE view_grants TO bpc_app;
GRANT UPDATE(revoked_by) ON TABLE view_grants TO bpc_app;
GRANT UPDATE(reason) ON TABLE view_grants TO bpc_app;

-- view_requests -------------------------------------------------------------------------------------------------
CREATE TABLE view_requests (
    tenant_id uuid NOT NULL,
    view_request_id uuid NOT NULL,
    passport_id uuid NOT NULL,
    battery_id uuid,
    audience text NOT NULL,
    said bytea,
    said_sha256 hash256 NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    status text DEFAULT 'PENDING'::text NOT NULL,
    decided_by uuid,
    decided_at timestamp with time zone,
    reason text,
    CONSTRAINT view_requests_audience_check CHECK ((audience = ANY (ARRAY['interest'::text, 'authority'::text]))),
    CONSTRAINT view_requests_decided CHECK (((status = 'PENDING'::text) = (decided_at IS NULL))),
    CONSTRAINT view_requests_kept_until_decided CHECK (((said IS NOT NULL) OR (status <> 'PENDING'::text))),
    CONSTRAINT view_requests_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT view_requests_said_check CHECK ((octet_length(said) <= 16384)),
    CONSTRAINT view_requests_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'APPROVED'::text, 'REJECTED'::text])))
);
ALTER TABLE view_requests FORCE ROW LEVEL SECURITY;
ALTER TABLE view_requests ADD CONSTRAINT view_requests_pkey PRIMARY KEY (tenant_id, view_request_id);
ALTER TABLE view_requests ADD CONSTRAINT view_requests_tenant_id_battery_id_fkey FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries(tenant_id, battery_id);
ALTER TABLE view_requests ADD CONSTRAINT view_requests_tenant_id_decided_by_fkey FOREIGN KEY (tenant_id, decided_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE view_requests ADD CONSTRAINT view_requests_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE view_requests ADD CONSTRAINT view_requests_tenant_id_passport_id_fkey FOREIGN KEY (tenant_id, passport_id) REFERENCES passports(tenant_id, passport_id);
CREATE INDEX view_requests_by_time ON view_requests USING btree (tenant_id, requested_at, view_request_id);
CREATE INDEX view_requests_pending ON view_requests USING btree (tenant_id, requested_at) WHERE (status = 'PENDING'::text);
CREATE TRIGGER view_requests_final BEFORE UPDATE ON view_requests FOR EACH ROW WHEN (((((((((old.tenant_id IS DISTINCT FROM new.tenant_id) OR (old.view_request_id IS DISTINCT FROM new.view_request_id)) OR (old.passport_id IS DISTINCT FROM new.passport_id)) OR (old.battery_id IS DISTINCT FROM new.battery_id)) OR (old.audience IS DISTINCT FROM new.audience)) OR ((old.said_sha256)::bytea IS DISTINCT FROM (new.said_sha256)::bytea)) OR (old.requested_at IS DISTINCT FROM new.requested_at)) OR ((new.said IS NOT NULL) AND (new.said IS DISTINCT FROM old.said)) OR ((old.status <> 'PENDING'::text) AND ((((old.status IS DISTINCT FROM new.status) OR (old.decided_by IS DISTINCT FROM new.decided_by)) OR (old.decided_at IS DISTINCT FROM new.decided_at)) OR (old.reason IS DISTINCT FROM new.reason))))) EXECUTE FUNCTION refuse('what was asked for never changes, and a decision is final');
CREATE TRIGGER view_requests_never_deleted BEFORE DELETE ON view_requests FOR EACH ROW EXECUTE FUNCTION refuse('a record of who may see what is never deleted');
CREATE TRIGGER view_requests_not_truncated BEFORE TRUNCATE ON view_requests FOR EACH STATEMENT EXECUTE FUNCTION refuse('records of who may see what are never deleted');
ALTER TABLE view_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON view_requests USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE view_requests TO bpc_app;
GRANT UPDATE(said) ON TABLE view_requests TO bpc_app;
GRANT UPDATE(status) ON TABLE view_requests TO bpc_app;
GRANT UPDATE(decided_by) ON TABLE view_requests TO bpc_app;
GRANT UPDATE(decided_at) ON TABLE view_requests TO bpc_app;
GRANT UPDATE(reason) ON TABLE view_requests TO bpc_app;

-- webhook_deliveries --------------------------------------------------------------------------------------------
CREATE TABLE webhook_deliveries (
    tenant_id uuid NOT NULL,
    webhook_delivery_id uuid NOT NULL,
    webhook_endpoint_id uuid NOT NULL,
    event_id uuid NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    status text NOT NULL,
    last_error jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    delivered_at timestamp with time zone,
    last_attempt_at timestamp with time zone,
    response_status integer,
    response_headers jsonb,
    response_body bytea,
    response_cut boolean DEFAULT false NOT NULL,
    redelivery_of uuid,
    CONSTRAINT webhook_deliveries_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT webhook_deliveries_response_body_check CHECK ((octet_length(response_body) <= 65536)),
    CONSTRAINT webhook_deliveries_response_status_check CHECK (((response_status >= 100) AND (response_status <= 999))),
    CONSTRAINT webhook_deliveries_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'DELIVERED'::text, 'FAILED'::text])))
);
ALTER TABLE webhook_deliveries FORCE ROW LEVEL SECURITY;
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (tenant_id, webhook_delivery_id);
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_tenant_id_event_id_fkey FOREIGN KEY (tenant_id, event_id) REFERENCES events(tenant_id, event_id);
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_tenant_id_webhook_endpoint_id_fkey FOREIGN KEY (tenant_id, webhook_endpoint_id) REFERENCES webhook_endpoints(tenant_id, webhook_endpoint_id);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries USING btree (tenant_id, webhook_endpoint_id, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_by_endpoint_status ON webhook_deliveries USING btree (tenant_id, webhook_endpoint_id, status, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries USING btree (tenant_id, status, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries USING btree (tenant_id, created_at, webhook_delivery_id);
CREATE INDEX webhook_deliveries_of_event ON webhook_deliveries USING btree (tenant_id, event_id);
CREATE TRIGGER webhook_deliveries_final BEFORE UPDATE ON webhook_deliveries FOR EACH ROW WHEN ((old.status <> 'PENDING'::text)) EXECUTE FUNCTION refuse('a delivery that has ended never changes');
ALTER TABLE webhook_deliveries ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON webhook_deliveries USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE webhook_deliveries TO bpc_app;
GRANT DELETE ON TABLE webhook_deliveries TO bpc_system;
GRANT UPDATE(attempt) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(status) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(last_error) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(delivered_at) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(last_attempt_at) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(response_status) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(response_headers) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(response_body) ON TABLE webhook_deliveries TO bpc_app;
GRANT UPDATE(response_cut) ON TABLE webhook_deliveries TO bpc_app;

-- webhook_endpoints ---------------------------------------------------------------------------------------------
CREATE TABLE webhook_endpoints (
    tenant_id uuid NOT NULL,
    webhook_endpoint_id uuid NOT NULL,
    url text NOT NULL,
    secret_base64 text NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by uuid,
    previous_secret_base64 text,
    rotated_at timestamp with time zone,
    timeout_seconds integer,
    retry_client_errors boolean DEFAULT false NOT NULL,
    failing_since timestamp with time zone,
    failed_attempts integer DEFAULT 0 NOT NULL,
    disabled_at timestamp with time zone,
    disabled_reason text,
    CONSTRAINT webhook_endpoints_disabled_reason_check CHECK ((disabled_reason <> ''::text)),
    CONSTRAINT webhook_endpoints_failed_attempts_check CHECK ((failed_attempts >= 0)),
    CONSTRAINT webhook_endpoints_timeout_seconds_check CHECK (((timeout_seconds >= 1) AND (timeout_seconds <= 60)))
);
ALTER TABLE webhook_endpoints FORCE ROW LEVEL SECURITY;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (tenant_id, webhook_endpoint_id);
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_tenant_id_created_by_fkey FOREIGN KEY (tenant_id, created_by) REFERENCES actors(tenant_id, actor_id);
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
CREATE INDEX webhook_endpoints_by_time ON webhook_endpoints USING btree (tenant_id, created_at, webhook_endpoint_id);
ALTER TABLE webhook_endpoints ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON webhook_endpoints USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(url) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(secret_base64) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(is_active) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(previous_secret_base64) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(rotated_at) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(timeout_seconds) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(retry_client_errors) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(failing_since) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(failed_attempts) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(disabled_at) ON TABLE webhook_endpoints TO bpc_app;
GRANT UPDATE(disabled_reason) ON TABLE webhook_endpoints TO bpc_app;

-- webhook_subscriptions -----------------------------------------------------------------------------------------
CREATE TABLE webhook_subscriptions (
    tenant_id uuid NOT NULL,
    webhook_subscription_id uuid NOT NULL,
    webhook_endpoint_id uuid NOT NULL,
    event_type text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE webhook_subscriptions FORCE ROW LEVEL SECURITY;
ALTER TABLE webhook_subscriptions ADD CONSTRAINT webhook_subscriptions_event_key UNIQUE (tenant_id, webhook_endpoint_id, event_type);
ALTER TABLE webhook_subscriptions ADD CONSTRAINT webhook_subscriptions_pkey PRIMARY KEY (tenant_id, webhook_subscription_id);
ALTER TABLE webhook_subscriptions ADD CONSTRAINT webhook_subscriptions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(tenant_id);
ALTER TABLE webhook_subscriptions ADD CONSTRAINT webhook_subscriptions_tenant_id_webhook_endpoint_id_fkey FOREIGN KEY (tenant_id, webhook_endpoint_id) REFERENCES webhook_endpoints(tenant_id, webhook_endpoint_id);
CREATE INDEX webhook_subscriptions_by_event ON webhook_subscriptions USING btree (tenant_id, event_type, webhook_endpoint_id);
CREATE INDEX webhook_subscriptions_by_time ON webhook_subscriptions USING btree (tenant_id, created_at, webhook_subscription_id);
ALTER TABLE webhook_subscriptions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON webhook_subscriptions USING ((tenant_id = ( SELECT current_tenant() AS current_tenant))) WITH CHECK ((tenant_id = ( SELECT current_tenant() AS current_tenant)));
GRANT SELECT,INSERT,DELETE ON TABLE webhook_subscriptions TO bpc_app;
