-- The job engine's tables. A job that is not over is in exactly one place, and where it is says what it waits for:
--
--   job_ready   may run now         job_lease        runs
--   job_later   waits for its time  job_dependency   waits for other jobs (has an unmet row, and is nowhere else)
--
-- `job` is what people see. On the way to success it is inserted once and updated once; no index contains a column
-- that this update changes, so it stays a HOT update and the table does not grow indexes for finished jobs. What is
-- compared a lot is compared byte by byte (COLLATE "C").

CREATE SCHEMA IF NOT EXISTS jobs;

CREATE TABLE jobs.job (
  tenant_id        uuid NOT NULL,
  job_id           uuid NOT NULL,  -- time-ordered, made by whoever submits: newest first is ORDER BY job_id DESC
  type             text COLLATE "C" NOT NULL,
  status           text NOT NULL DEFAULT 'QUEUED'  -- RUNNING is never stored: it means "has a lease"
                   CHECK (status IN ('QUEUED', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD_LETTER')),
  priority         smallint NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 3),
  attempts         int NOT NULL DEFAULT 0,  -- executions started, as of the last one that ended: never goes back
  uncounted        int NOT NULL DEFAULT 0,  -- of these, the ones that do not count: released, or before a redrive
  max_attempts     int NOT NULL CHECK (max_attempts >= 1),
  awaited          boolean NOT NULL DEFAULT false,  -- other jobs depend on this one
  idempotency_key  text COLLATE "C",
  limit_key        text COLLATE "C" NOT NULL DEFAULT '',  -- '' is unlimited
  batch_id         uuid,
  payload          json NOT NULL,
  result           json,
  last_error       json,
  checkpoint       json,
  step             json,  -- of a job of several steps: how many are done, and what the last one gave
  progress         json,
  created_at       timestamptz NOT NULL,
  scheduled_at     timestamptz NOT NULL,
  started_at       timestamptz,
  finished_at      timestamptz,
  failed_at        timestamptz,  -- set only by FAILED and DEAD_LETTER, so that success does not touch its index
  keep_seconds     int NOT NULL,
  correlation_id   text,
  actor            text,
  traceparent      text,
  PRIMARY KEY (tenant_id, job_id)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX job_idempotency_key ON jobs.job (tenant_id, type, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_of_batch ON jobs.job (tenant_id, batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX job_failed ON jobs.job (tenant_id, failed_at) WHERE failed_at IS NOT NULL;

-- A lane is (tenant, limit key, priority); inside it, seq. Whatever becomes ready gets a new seq, so a worker may
-- start each scan above what it has seen, and dead index entries below cost nothing.
CREATE TABLE jobs.job_ready (
  seq        bigint GENERATED ALWAYS AS IDENTITY,
  tenant_id  uuid NOT NULL,
  job_id     uuid NOT NULL,
  type       text COLLATE "C" NOT NULL,
  priority   smallint NOT NULL,
  attempt    int NOT NULL,  -- executions started so far; with the owner it names one execution for all time
  limit_key  text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, limit_key, priority, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE jobs.job_later (
  tenant_id  uuid NOT NULL,
  job_id     uuid NOT NULL,
  run_at     timestamptz NOT NULL,
  type       text COLLATE "C" NOT NULL,
  priority   smallint NOT NULL,
  attempt    int NOT NULL,
  limit_key  text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX job_later_due ON jobs.job_later (run_at);

CREATE TABLE jobs.job_lease (
  tenant_id         uuid NOT NULL,
  job_id            uuid NOT NULL,
  type              text COLLATE "C" NOT NULL,
  owner             text NOT NULL,
  attempt           int NOT NULL,
  priority          smallint NOT NULL,
  limit_key         text COLLATE "C" NOT NULL,
  slot              int,
  started_at        timestamptz NOT NULL,
  lease_until       timestamptz NOT NULL,
  cancel_requested  boolean NOT NULL DEFAULT false,
  cancel_reason     text,
  PRIMARY KEY (tenant_id, job_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE jobs.job_slot (
  tenant_id  uuid NOT NULL,
  limit_key  text COLLATE "C" NOT NULL,
  slot       int NOT NULL,
  job_id     uuid,  -- who has it; NULL is free
  closing    boolean NOT NULL DEFAULT false,  -- the limit was lowered: it goes when it is free
  PRIMARY KEY (tenant_id, limit_key, slot)
) WITH (fillfactor = 50);

CREATE TABLE jobs.job_worker (
  owner         text PRIMARY KEY,
  lock_key      bigint,  -- the session advisory lock it holds while it lives; NULL behind a transaction pooler
  types         text[] NOT NULL,
  started_at    timestamptz NOT NULL,
  heartbeat_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE jobs.job_dependency (
  tenant_id  uuid NOT NULL,
  job_id     uuid NOT NULL,
  needs_id   uuid NOT NULL,
  met        boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, job_id, needs_id)
);
CREATE INDEX job_dependency_on ON jobs.job_dependency (tenant_id, needs_id);

CREATE TABLE jobs.batch (
  tenant_id    uuid NOT NULL,
  batch_id     uuid NOT NULL,
  name         text,
  total        int NOT NULL,
  created_at   timestamptz NOT NULL,
  finished_at  timestamptz,
  follow_up    json,  -- what to submit when all jobs of it are over: type, payload and how
  PRIMARY KEY (tenant_id, batch_id)
);
CREATE INDEX batch_open ON jobs.batch (created_at) WHERE finished_at IS NULL;

CREATE TABLE jobs.schedule (
  tenant_id     uuid NOT NULL,
  name          text NOT NULL,
  cron          text NOT NULL,
  time_zone     text NOT NULL,
  type          text COLLATE "C" NOT NULL,
  payload       json NOT NULL,
  priority      smallint NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 3),
  max_attempts  int NOT NULL CHECK (max_attempts >= 1),
  keep_seconds  int NOT NULL,
  catch_up      text NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
  paused        boolean NOT NULL DEFAULT false,
  last_at       timestamptz,
  next_at       timestamptz NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name)
);
CREATE INDEX schedule_due ON jobs.schedule (next_at) WHERE NOT paused;
