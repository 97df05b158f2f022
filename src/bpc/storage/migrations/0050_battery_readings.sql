-- Readings of single batteries: a series in time for each battery and kind, spread over partitions by battery. A delivery
-- is what one sender sent at once: its hash, its source and, where given, the sender's signature.

CREATE TABLE reading_deliveries (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  delivery_id  uuid NOT NULL,
  source       text NOT NULL CHECK (source IN ('BMS', 'WORKSHOP', 'OTHER')),
  sender       text CHECK (sender <> ''),
  sha256       bytea NOT NULL CHECK (octet_length(sha256) = 32),
  signature    bytea CHECK (octet_length(signature) = 64),
  public_key   bytea CHECK (octet_length(public_key) = 32),
  received     int NOT NULL CHECK (received > 0),
  received_at  timestamptz NOT NULL,
  received_by  uuid,
  PRIMARY KEY (tenant_id, delivery_id),
  FOREIGN KEY (tenant_id, received_by) REFERENCES actors,
  CONSTRAINT reading_deliveries_signed CHECK ((signature IS NULL) = (public_key IS NULL))
);
CREATE INDEX reading_deliveries_by_time ON reading_deliveries (tenant_id, received_at, delivery_id);

-- A value of the same kind and time that differs is a new revision: the earlier one is what was known before.
CREATE TABLE battery_readings (
  tenant_id    uuid NOT NULL REFERENCES tenants,
  battery_id   uuid NOT NULL,
  delivery_id  uuid NOT NULL,
  recorded_at  timestamptz NOT NULL,
  received_at  timestamptz NOT NULL,
  revision     smallint NOT NULL CHECK (revision >= 0),
  kind         text NOT NULL CHECK (kind <> ''),
  number       numeric(30, 6),
  text         text,
  PRIMARY KEY (tenant_id, battery_id, kind, recorded_at, revision),
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  FOREIGN KEY (tenant_id, delivery_id) REFERENCES reading_deliveries,
  CONSTRAINT battery_readings_value CHECK (num_nonnulls(number, text) = 1)
) PARTITION BY HASH (battery_id);
CREATE TABLE battery_readings_0 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE battery_readings_1 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE battery_readings_2 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE battery_readings_3 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE battery_readings_4 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE battery_readings_5 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE battery_readings_6 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE battery_readings_7 PARTITION OF battery_readings FOR VALUES WITH (MODULUS 8, REMAINDER 7);

ALTER TABLE reading_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE reading_deliveries FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_readings ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_readings FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON reading_deliveries USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON battery_readings USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
-- Of the partitions nobody but their owner has rights: rows are reached through the table, whose policy counts.
GRANT SELECT, INSERT ON reading_deliveries, battery_readings TO bpc_app;
CREATE TRIGGER reading_deliveries_never_change BEFORE UPDATE OR DELETE ON reading_deliveries
  FOR EACH ROW EXECUTE FUNCTION refuse('a delivery of readings is never changed or deleted');
CREATE TRIGGER reading_deliveries_not_truncated BEFORE TRUNCATE ON reading_deliveries
  EXECUTE FUNCTION refuse('deliveries of readings are never deleted');
CREATE TRIGGER battery_readings_never_change BEFORE UPDATE OR DELETE ON battery_readings
  FOR EACH ROW EXECUTE FUNCTION refuse('a reading is never changed or deleted');
CREATE TRIGGER battery_readings_not_truncated BEFORE TRUNCATE ON battery_readings
  EXECUTE FUNCTION refuse('readings are never deleted');
