-- Batteries as single things. A product says how its batteries are identified. A registration adds up to a hundred thousand
-- of them at once, under one event; the hashes of its leaves are kept, so that a changed row can be named.

CREATE TABLE battery_identifications (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  battery_product_id  uuid NOT NULL,
  granularity         text NOT NULL CHECK (granularity IN ('MODEL', 'BATCH', 'ITEM')),
  scheme              text NOT NULL CHECK (scheme IN ('GS1', 'OWN', 'IEC61406')),
  gtin                text CHECK (gtin ~ '^[0-9]{14}$'),
  base_url            text CHECK (base_url <> ''),
  operator_scheme     text CHECK (operator_scheme IN ('GLN', 'EORI', 'VAT', 'LEI')),
  operator_id         text CHECK (operator_id <> ''),
  -- When the first battery was placed on the market: from then on only the operator may change.
  fixed_at            timestamptz,
  changed_at          timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, battery_product_id),
  FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products,
  CONSTRAINT battery_identifications_with_gtin CHECK ((scheme = 'GS1') = (gtin IS NOT NULL)),
  CONSTRAINT battery_identifications_operator CHECK ((operator_scheme IS NULL) = (operator_id IS NULL)),
  CONSTRAINT battery_identifications_gtin_key UNIQUE (tenant_id, gtin)
);
-- An address is resolved before a tenant is known.
CREATE INDEX battery_identifications_by_gtin ON battery_identifications (gtin) WHERE gtin IS NOT NULL;

CREATE TABLE battery_batches (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  battery_batch_id    uuid NOT NULL,
  battery_product_id  uuid NOT NULL,
  batch_number        text NOT NULL CHECK (batch_number <> ''),
  plant               text CHECK (plant <> ''),
  manufactured_on     date,
  created_at          timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, battery_batch_id),
  FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products,
  CONSTRAINT battery_batches_number_key UNIQUE (tenant_id, battery_product_id, batch_number)
);
CREATE INDEX battery_batches_by_time ON battery_batches (tenant_id, created_at, battery_batch_id);

CREATE TABLE battery_registrations (
  tenant_id        uuid NOT NULL REFERENCES tenants,
  registration_id  uuid NOT NULL,
  total            int NOT NULL CHECK (total > 0),
  root             bytea NOT NULL CHECK (octet_length(root) = 32),
  leaf_hashes      bytea NOT NULL CHECK (octet_length(leaf_hashes) = 32 * total),
  registered_at    timestamptz NOT NULL,
  registered_by    uuid,
  PRIMARY KEY (tenant_id, registration_id),
  FOREIGN KEY (tenant_id, registered_by) REFERENCES actors
);
-- Hashes do not become shorter.
ALTER TABLE battery_registrations ALTER COLUMN leaf_hashes SET STORAGE EXTERNAL;

CREATE TABLE batteries (
  tenant_id           uuid NOT NULL REFERENCES tenants,
  battery_id          uuid NOT NULL,
  battery_product_id  uuid NOT NULL,
  registration_id     uuid NOT NULL,
  battery_batch_id    uuid,
  registered_at       timestamptz NOT NULL,
  ceased_at           timestamptz,
  leaf_number         int NOT NULL CHECK (leaf_number >= 0),
  manufactured_on     date,
  placed_on           date,
  serial_number       text NOT NULL CHECK (serial_number <> ''),
  status              text NOT NULL DEFAULT 'original'
                      CHECK (status IN ('original', 're-used', 'repurposed', 'remanufactured', 'waste')),
  plant               text CHECK (plant <> ''),
  link                text CHECK (link <> ''),
  successor           text CHECK (successor <> ''),
  predecessor         text CHECK (predecessor <> ''),
  -- The id first: an address is resolved before a tenant is known.
  PRIMARY KEY (battery_id, tenant_id),
  FOREIGN KEY (tenant_id, battery_product_id) REFERENCES battery_products,
  FOREIGN KEY (tenant_id, registration_id) REFERENCES battery_registrations,
  FOREIGN KEY (tenant_id, battery_batch_id) REFERENCES battery_batches,
  CONSTRAINT batteries_ceased CHECK (ceased_at IS NULL OR status = 'waste'),
  CONSTRAINT batteries_other_life CHECK (status IN ('original', 'waste') OR successor IS NOT NULL
                                         OR predecessor IS NOT NULL),
  -- One index for both: by serial number alone, and by product (or GTIN) and serial number.
  CONSTRAINT batteries_serial_key UNIQUE (tenant_id, serial_number, battery_product_id)
);
CREATE INDEX batteries_by_time ON batteries (tenant_id, registered_at, battery_id);
CREATE INDEX batteries_of_product ON batteries (tenant_id, battery_product_id, registered_at, battery_id);
CREATE INDEX batteries_not_original ON batteries (tenant_id, status, registered_at, battery_id)
  WHERE status <> 'original';
CREATE UNIQUE INDEX batteries_link_key ON batteries (link, tenant_id) WHERE link IS NOT NULL;

-- What happened to a battery, in its order. Rows are only added; the battery's own chain has an event for each.
CREATE TABLE battery_changes (
  tenant_id     uuid NOT NULL REFERENCES tenants,
  battery_id    uuid NOT NULL,
  number        int NOT NULL CHECK (number > 0),
  kind          text NOT NULL CHECK (kind IN ('PLACED', 'REPAIRED', 'WASTE', 'RECYCLED', 'SUCCEEDED', 'BEGUN')),
  status        text NOT NULL CHECK (status IN ('original', 're-used', 'repurposed', 'remanufactured', 'waste')),
  effective_on  date NOT NULL,
  said          jsonb NOT NULL,
  changed_at    timestamptz NOT NULL,
  changed_by    uuid,
  PRIMARY KEY (tenant_id, battery_id, number),
  FOREIGN KEY (tenant_id, battery_id) REFERENCES batteries (tenant_id, battery_id),
  FOREIGN KEY (tenant_id, changed_by) REFERENCES actors
);

ALTER TABLE battery_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_changes FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_changes USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
GRANT SELECT, INSERT ON battery_changes TO bpc_app;
CREATE TRIGGER battery_changes_never_change BEFORE UPDATE OR DELETE ON battery_changes
  FOR EACH ROW EXECUTE FUNCTION refuse('a change of a battery is never changed or deleted');
CREATE TRIGGER battery_changes_not_truncated BEFORE TRUNCATE ON battery_changes
  EXECUTE FUNCTION refuse('changes of batteries are never deleted');

ALTER TABLE battery_identifications ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_identifications FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_batches ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_batches FORCE ROW LEVEL SECURITY;
ALTER TABLE battery_registrations ENABLE ROW LEVEL SECURITY;
ALTER TABLE battery_registrations FORCE ROW LEVEL SECURITY;
ALTER TABLE batteries ENABLE ROW LEVEL SECURITY;
ALTER TABLE batteries FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON battery_identifications USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON battery_batches USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON battery_registrations USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY own_tenant ON batteries USING (tenant_id = (SELECT current_tenant()))
  WITH CHECK (tenant_id = (SELECT current_tenant()));
CREATE POLICY address_lookup ON batteries FOR SELECT TO bpc_owner USING (true);
CREATE POLICY address_lookup ON battery_identifications FOR SELECT TO bpc_owner USING (true);
GRANT SELECT, INSERT, UPDATE (granularity, scheme, gtin, base_url, operator_scheme, operator_id, fixed_at, changed_at)
  ON battery_identifications TO bpc_app;
GRANT SELECT, INSERT ON battery_batches, battery_registrations TO bpc_app;
GRANT SELECT, INSERT, UPDATE (status, placed_on, ceased_at, successor) ON batteries TO bpc_app;

CREATE TRIGGER battery_identifications_fixed BEFORE UPDATE ON battery_identifications
  FOR EACH ROW WHEN (OLD.fixed_at IS NOT NULL
    AND (OLD.granularity, OLD.scheme, OLD.gtin, OLD.base_url, OLD.fixed_at)
        IS DISTINCT FROM (NEW.granularity, NEW.scheme, NEW.gtin, NEW.base_url, NEW.fixed_at))
  EXECUTE FUNCTION refuse('how batteries are identified stays the same once one is on the market');
CREATE TRIGGER battery_batches_never_change BEFORE UPDATE OR DELETE ON battery_batches
  FOR EACH ROW EXECUTE FUNCTION refuse('a batch is never changed or deleted');
CREATE TRIGGER battery_batches_not_truncated BEFORE TRUNCATE ON battery_batches
  EXECUTE FUNCTION refuse('batches are never deleted');
CREATE TRIGGER battery_registrations_never_change BEFORE UPDATE OR DELETE ON battery_registrations
  FOR EACH ROW EXECUTE FUNCTION refuse('a registration is never changed or deleted');
CREATE TRIGGER battery_registrations_not_truncated BEFORE TRUNCATE ON battery_registrations
  EXECUTE FUNCTION refuse('registrations are never deleted');
-- What was registered stays. A date on the market and a successor come once; what ceased stays as it is.
CREATE TRIGGER batteries_identity_stays BEFORE UPDATE ON batteries
  FOR EACH ROW WHEN (OLD.ceased_at IS NOT NULL OR OLD.successor IS NOT NULL
    OR OLD.placed_on IS NOT NULL AND NEW.placed_on IS DISTINCT FROM OLD.placed_on
    OR (OLD.tenant_id, OLD.battery_id, OLD.battery_product_id, OLD.registration_id, OLD.battery_batch_id,
        OLD.registered_at, OLD.leaf_number, OLD.manufactured_on, OLD.serial_number, OLD.plant, OLD.link,
        OLD.predecessor)
       IS DISTINCT FROM
       (NEW.tenant_id, NEW.battery_id, NEW.battery_product_id, NEW.registration_id, NEW.battery_batch_id,
        NEW.registered_at, NEW.leaf_number, NEW.manufactured_on, NEW.serial_number, NEW.plant, NEW.link,
        NEW.predecessor))
  EXECUTE FUNCTION refuse('what a battery is never changes, and its end is final');
CREATE TRIGGER batteries_status_steps BEFORE UPDATE OF status ON batteries
  FOR EACH ROW WHEN (OLD.status <> NEW.status
    AND CASE OLD.status WHEN 'waste' THEN NEW.status = 'original' ELSE NEW.status <> 'waste' END)
  EXECUTE FUNCTION refuse('a battery becomes waste, and only waste gets another life');
CREATE TRIGGER batteries_never_deleted BEFORE DELETE ON batteries
  FOR EACH ROW EXECUTE FUNCTION refuse('a battery is never deleted');
CREATE TRIGGER batteries_not_truncated BEFORE TRUNCATE ON batteries
  EXECUTE FUNCTION refuse('batteries are never deleted');

-- What everybody may know of an address: that it is taken, and since when the passport behind it has ceased. Nothing else
-- crosses the border between tenants. The oldest battery counts if two tenants claim one GTIN.
CREATE FUNCTION find_public_battery(wanted_id uuid, wanted_gtin text, wanted_serial text, wanted_link text)
  RETURNS TABLE (ceased_at timestamptz, successor text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT matches.ceased_at, matches.successor FROM (
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM public.batteries b WHERE b.battery_id = wanted_id
    UNION ALL
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM public.battery_identifications i
      JOIN public.batteries b ON b.tenant_id = i.tenant_id AND b.serial_number = wanted_serial
                             AND b.battery_product_id = i.battery_product_id
     WHERE i.gtin = wanted_gtin
    UNION ALL
    SELECT b.battery_id, b.ceased_at, b.successor, b.registered_at
      FROM public.batteries b WHERE b.link = wanted_link) AS matches
  ORDER BY matches.registered_at, matches.battery_id LIMIT 1
$$;
REVOKE ALL ON FUNCTION find_public_battery(uuid, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_public_battery(uuid, text, text, text) TO bpc_app;
