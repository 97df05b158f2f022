-- A schedule's jobs have a subject and a concurrency limit like any other job.
ALTER TABLE jobs.schedule
  ADD COLUMN limit_key text COLLATE "C",
  ADD COLUMN limit_at_most int CHECK (limit_at_most >= 1),
  ADD COLUMN subject_kind text COLLATE "C",
  ADD COLUMN subject_id text COLLATE "C",
  ADD COLUMN subject_group text COLLATE "C";
