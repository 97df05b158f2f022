-- What is done to jobs by everybody but the worker's hot path, which is one statement in bpc/jobs/worker/claims.py.
-- All run with the caller's rights (SECURITY INVOKER), so row-level security holds inside them. Those that look things
-- up do so by index whatever the statistics say: a plan made while a table was empty must not outlive that.

-- The one clock. Leases are compared with the database's time only, so workers' clocks may differ.
CREATE FUNCTION jobs.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() $$;

-- Bind the transaction to a tenant, or make sure that it is bound to no other.
CREATE FUNCTION jobs.enter(p_tenant uuid) RETURNS void LANGUAGE plpgsql AS $$
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

-- Tell idle workers that a lane has something. An idle worker holds this lock exclusively. Who gets it shared keeps it
-- until commit: then nobody is idle, and who wants to become idle waits for us and looks once more. So NOTIFY, which
-- makes all committing transactions queue up behind one lock, is sent only when somebody sleeps.
CREATE FUNCTION jobs.wake(p_tenant uuid, p_limit_key text, p_priority smallint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(1785684595, 1) THEN
    PERFORM pg_notify('jobs', 'ready ' || p_tenant || ' ' || p_priority || ' ' || left(p_limit_key, 1000));
  END IF;
END $$;

-- Submit one job that may run at once: the most usual submission, in as few steps as there can be. Returns its id, or
-- that of the job which has its key.
CREATE FUNCTION jobs.submit_one(
  p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts int,
  p_keep_seconds int, p_correlation_id text, p_actor text, p_traceparent text)
RETURNS uuid
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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
                            scheduled_at, keep_seconds, correlation_id, actor, traceparent)
      VALUES (p_tenant, p_id, p_type, p_priority, p_max_attempts, p_key, p_payload::json, v_now, v_now, p_keep_seconds,
              p_correlation_id, p_actor, p_traceparent)
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

-- Submit jobs of one type. Returns one id per job given: of the new job, or of the one that has its key already.
-- Absent arrays (NULL) mean "none of them has one"; p_delays is in seconds.
CREATE FUNCTION jobs.submit(
  p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays float8[],
  p_limit_keys text[], p_limit int, p_priority smallint, p_max_attempts int, p_keep_seconds int, p_batch uuid,
  p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text)
RETURNS uuid[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_now    timestamptz := jobs.clock();
  v_ids    uuid[] := p_ids;   -- one per job given
  v_fresh  uuid[] := p_ids;   -- those that are new
  v_blocked boolean := false;
BEGIN
  PERFORM jobs.enter(p_tenant);
  IF p_keys IS NULL THEN
    INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, limit_key, batch_id, payload, created_at,
                          scheduled_at, keep_seconds, correlation_id, actor, traceparent)
    SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, coalesce(u.limit_key, ''), p_batch, u.payload::json,
           v_now, CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
           p_keep_seconds, p_correlation_id, p_actor, p_traceparent
      FROM unnest(p_ids, p_payloads, p_delays, p_limit_keys) AS u (id, payload, delay, limit_key);
  ELSE
    -- Sorted by key: two submissions with keys in common must not wait for each other in a circle. In bulk it is
    -- cheaper to hope for the best and fall back than to ask for every row whether its key is taken.
    IF cardinality(p_ids) > 8 THEN
      BEGIN
        INSERT INTO jobs.job (tenant_id, job_id, type, priority, max_attempts, idempotency_key, limit_key, batch_id,
                              payload, created_at, scheduled_at, keep_seconds, correlation_id, actor, traceparent)
        SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, u.key, coalesce(u.limit_key, ''), p_batch,
               u.payload::json, v_now,
               CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
               p_keep_seconds, p_correlation_id, p_actor, p_traceparent
          FROM unnest(p_ids, p_payloads, p_keys, p_delays, p_limit_keys) AS u (id, payload, key, delay, limit_key)
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
                                payload, created_at, scheduled_at, keep_seconds, correlation_id, actor, traceparent)
          SELECT p_tenant, u.id, p_type, p_priority, p_max_attempts, u.key, coalesce(u.limit_key, ''), p_batch,
                 u.payload::json, v_now,
                 CASE WHEN u.delay IS NULL THEN v_now ELSE v_now + make_interval(secs => u.delay) END,
                 p_keep_seconds, p_correlation_id, p_actor, p_traceparent
            FROM unnest(p_ids, p_payloads, p_keys, p_delays, p_limit_keys, v_ids)
              AS u (id, payload, key, delay, limit_key, answer)
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

-- At most p_limit jobs of this key at a time: that many slots. The latest word counts; a slot in use goes when it is
-- free.
CREATE FUNCTION jobs.limit_to(p_tenant uuid, p_key text, p_limit int) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- What is said of a job that will not run, because one that it needs ended badly.
CREATE FUNCTION jobs.because_of(p_needed uuid, p_status text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
  SELECT json_build_object('code', 'JOB_CANCELLED', 'because_of', p_needed,
                           'message', format('job %s, which it depends on, ended %s', p_needed, p_status))
$$;

-- Lock everybody who waits for a job, directly or through others, in the one order in which jobs are locked: who goes
-- from one generation to the next and locks as it goes meets others who came another way.
CREATE FUNCTION jobs.lock_dependents(p_tenant uuid, p_job uuid) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Make new jobs wait for others. True if they have to; a job that is needed and already ended badly cancels them. Who
-- else waits for that one was cancelled when it ended, and is not touched: a submission locks what it needs, no more.
CREATE FUNCTION jobs.block(p_tenant uuid, p_jobs uuid[], p_needs uuid[], p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Put a job where it can run: now, or at its time.
CREATE FUNCTION jobs.queue(p_tenant uuid, p_job uuid, p_attempt int, p_run_at timestamptz, p_now timestamptz)
RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Needed jobs succeeded: whoever waited for nothing else may run. Dependents are locked before they are counted, so of
-- two needed jobs that end at the same moment the second sees the first.
CREATE FUNCTION jobs.release_dependents(p_tenant uuid, p_jobs uuid[], p_now timestamptz)
RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- A needed job ended badly: nobody who waits for it will run, nor who waits for those, one generation after the other.
-- Those that are cancelled already are locked too: who is about to bring one back has to finish that first.
CREATE FUNCTION jobs.cancel_dependents(p_tenant uuid, p_job uuid, p_status text, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- The end of one execution, said by whoever holds the lease: fenced by owner and attempt. Returns what became of the
-- job, or NULL if the lease is lost, and then nothing has changed.
--   SUCCEEDED, FAILED, DEAD_LETTER, CANCELLED: over. RETRY: again after p_delay. RELEASE: again, and it did not count.
CREATE FUNCTION jobs.settle(p_tenant uuid, p_job uuid, p_owner text, p_attempt int, p_outcome text, p_result text,
                            p_error text, p_delay float8)
RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Write down how far an execution is, fenced like its end. False if the lease is lost.
CREATE FUNCTION jobs.save(p_tenant uuid, p_job uuid, p_owner text, p_attempt int, p_what text, p_text text)
RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Take a lease away from a worker that is dead (p_until NULL) or let it run out (p_until as it was seen). Whoever is
-- touching the lease right now is alive, so we do not wait for it. An execution that was the last allowed is left alone
-- if p_bury is false: its type has something to do on failure, and the caller does both in one transaction.
CREATE FUNCTION jobs.reap(p_tenant uuid, p_job uuid, p_owner text, p_attempt int, p_until timestamptz, p_bury boolean,
                          p_error text)
RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Cancel a job. Returns CANCELLED, CANCELLING (it runs, and was asked to stop), what it had already ended as, or NULL
-- where there is no such job. Locks are taken as the end of a job takes them: lease or place in the queue, then job.
CREATE FUNCTION jobs.cancel(p_tenant uuid, p_job uuid, p_reason text) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Run a job again that ended FAILED or DEAD_LETTER, or that somebody cancelled, from its checkpoint and with all its
-- attempts; or run one at once that waits for its time. It waits for the jobs it needs, and dependents that were
-- cancelled because of it wait for it again. Returns QUEUED, or why not: READY (it waits for a worker only), BLOCKED
-- (for other jobs), the status that does not allow it, or NULL where there is no such job. CANCELLED stays what was
-- cancelled because of a job it needs, and what needs one that ended badly or is gone: that one comes first.
CREATE FUNCTION jobs.redrive(p_tenant uuid, p_job uuid) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Whether a job needs one that ended badly, or that ended so and was removed since. Asked with the job locked: whoever
-- ends what it needs waits for us, or we have waited for them.
CREATE FUNCTION jobs.is_hopeless(p_tenant uuid, p_job uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM jobs.job_dependency d
      LEFT JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
     WHERE d.tenant_id = p_tenant AND d.job_id = p_job AND NOT d.met
       AND (n.status IS NULL OR n.status IN ('FAILED', 'DEAD_LETTER', 'CANCELLED')));
END $$;

-- A needed job runs again: who was cancelled because of it waits again, and who was cancelled because of those. Locked
-- first and asked then: something else it needs may end badly in between.
CREATE FUNCTION jobs.restore_dependents(p_tenant uuid, p_job uuid) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Move what is due from later to ready. Returns the lanes that got something.
CREATE FUNCTION jobs.move_due(p_after timestamptz, p_most int)
RETURNS TABLE (tenant_id uuid, limit_key text, priority smallint, moved bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- What people see: status, attempts and times as they are now. Without the payload, which may be large or private.
CREATE VIEW jobs.job_status WITH (security_invoker = true) AS
SELECT j.tenant_id, j.job_id, j.type,
       CASE WHEN l.job_id IS NOT NULL THEN 'RUNNING' ELSE j.status END AS status,
       j.priority, coalesce(l.attempt, j.attempts) - j.uncounted AS attempts, j.max_attempts, j.idempotency_key,
       j.limit_key, j.batch_id, j.progress, j.last_error, j.created_at, j.scheduled_at,
       coalesce(l.started_at, j.started_at) AS started_at, j.finished_at, l.owner AS lease_owner,
       l.lease_until AS lease_expires_at,
       coalesce(l.cancel_requested, false) AS cancel_requested, j.correlation_id, j.actor
  FROM jobs.job j
  LEFT JOIN jobs.job_lease l ON l.tenant_id = j.tenant_id AND l.job_id = j.job_id;
