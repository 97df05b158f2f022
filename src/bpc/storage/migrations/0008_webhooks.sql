-- Webhooks on their way: who is to be told of an event, and what came back.

-- Asked with every event that is announced.
CREATE INDEX webhook_subscriptions_by_event ON webhook_subscriptions (tenant_id, event_type, webhook_endpoint_id);

-- What the endpoint answered last, as far as it is kept. The delivery that another one repeats may have been removed by
-- retention, so there is no foreign key to it.
ALTER TABLE webhook_deliveries
  ADD COLUMN last_attempt_at   timestamptz,
  ADD COLUMN response_status   int CHECK (response_status BETWEEN 100 AND 999),
  ADD COLUMN response_headers  jsonb,
  ADD COLUMN response_body     bytea CHECK (octet_length(response_body) <= 65536),
  ADD COLUMN response_cut      boolean NOT NULL DEFAULT false,
  ADD COLUMN redelivery_of     uuid;
GRANT UPDATE (last_attempt_at, response_status, response_headers, response_body, response_cut)
  ON webhook_deliveries TO bpc_app;

CREATE TRIGGER webhook_deliveries_final BEFORE UPDATE ON webhook_deliveries
  FOR EACH ROW WHEN (OLD.status <> 'PENDING') EXECUTE FUNCTION refuse('a delivery that has ended never changes');
