-- How an endpoint wants its webhooks, how it does, and whether it is disabled. An endpoint that is inactive without a
-- time of disabling was deleted, or disabled by a program before this one; it stays inactive.
ALTER TABLE webhook_endpoints
  ADD COLUMN timeout_seconds      int CHECK (timeout_seconds BETWEEN 1 AND 60),
  ADD COLUMN retry_client_errors  boolean NOT NULL DEFAULT false,
  ADD COLUMN failing_since        timestamptz,
  ADD COLUMN failed_attempts      int NOT NULL DEFAULT 0 CHECK (failed_attempts >= 0),
  ADD COLUMN disabled_at          timestamptz,
  ADD COLUMN disabled_reason      text CHECK (disabled_reason <> '');
GRANT UPDATE (timeout_seconds, retry_client_errors, failing_since, failed_attempts, disabled_at, disabled_reason)
  ON webhook_endpoints TO bpc_app;
