-- locks: jobs.job: two indexes that contain no row yet, so each is one scan of the table
-- What a job is about, and which service submitted it. A subject is a kind and an id, such as ('invoice', '4711'); its
-- group is a wider name that several subjects share, such as a customer. The engine only stores them and finds jobs by
-- them. None of these columns ever changes, so the update that ends a job stays a HOT update.

ALTER TABLE jobs.job
  ADD COLUMN service_id text,
  ADD COLUMN subject_kind text COLLATE "C",
  ADD COLUMN subject_id text COLLATE "C",
  ADD COLUMN subject_group text COLLATE "C";
CREATE INDEX job_of_subject ON jobs.job (tenant_id, subject_kind, subject_id, job_id) WHERE subject_id IS NOT NULL;
CREATE INDEX job_of_subject_group ON jobs.job (tenant_id, subject_group, job_id) WHERE subject_group IS NOT NULL;

-- Submit one job that may run at once: the most usual submission, in as few steps as there can be. Returns its id, or
-- that of the job which has its key.
CREATE FUNCTION jobs.submit_one(
  p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts int,
  p_keep_seconds int, p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kind text,
  p_subject_id text, p_subject_group text)
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

-- Submit jobs of one type. Returns one id per job given: of the new job, or of the one that has its key already.
-- Absent arrays (NULL) mean "none of them has one"; p_delays is in seconds.
CREATE FUNCTION jobs.submit(
  p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays float8[],
  p_limit_keys text[], p_limit int, p_priority smallint, p_max_attempts int, p_keep_seconds int, p_batch uuid,
  p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text, p_service_id text, p_subject_kinds text[],
  p_subject_ids text[], p_subject_groups text[])
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

-- What a version without subjects calls.
CREATE OR REPLACE FUNCTION jobs.submit_one(
  p_tenant uuid, p_type text, p_id uuid, p_payload text, p_key text, p_priority smallint, p_max_attempts int,
  p_keep_seconds int, p_correlation_id text, p_actor text, p_traceparent text)
RETURNS uuid
LANGUAGE sql AS $$
  SELECT jobs.submit_one(p_tenant, p_type, p_id, p_payload, p_key, p_priority, p_max_attempts, p_keep_seconds,
                         p_correlation_id, p_actor, p_traceparent, NULL, NULL, NULL, NULL)
$$;
CREATE OR REPLACE FUNCTION jobs.submit(
  p_tenant uuid, p_type text, p_ids uuid[], p_payloads text[], p_keys text[], p_delays float8[],
  p_limit_keys text[], p_limit int, p_priority smallint, p_max_attempts int, p_keep_seconds int, p_batch uuid,
  p_needs uuid[], p_correlation_id text, p_actor text, p_traceparent text)
RETURNS uuid[]
LANGUAGE sql AS $$
  SELECT jobs.submit(p_tenant, p_type, p_ids, p_payloads, p_keys, p_delays, p_limit_keys, p_limit, p_priority,
                     p_max_attempts, p_keep_seconds, p_batch, p_needs, p_correlation_id, p_actor, p_traceparent, NULL,
                     NULL, NULL, NULL)
$$;
