-- Whoever scans a battery knows a code of GS1 or the id of the battery, and neither a tenant nor a key. One function walks up
-- from the item to its batch and its model, and says whose it is; everything else is read as that tenant.
CREATE POLICY address_lookup ON battery_batches FOR SELECT TO bpc_owner USING (true);

-- The oldest battery counts if two tenants claim one GTIN, and without a battery the oldest product.
CREATE FUNCTION find_public_item(wanted_id uuid, wanted_gtin text, wanted_lot text, wanted_serial text, only_tenant uuid)
  RETURNS TABLE (tenant_id uuid, granularity text, gtin text, passport_id uuid, battery_id uuid, serial_number text,
                 batch_number text, ceased_at timestamptz, successor text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
  SELECT m.tenant_id, m.granularity, m.gtin, p.passport_id, m.battery_id, m.serial_number,
         (SELECT c.batch_number FROM public.battery_batches c
           WHERE c.tenant_id = m.tenant_id AND c.battery_batch_id = m.battery_batch_id
          UNION ALL
          SELECT c.batch_number FROM public.battery_batches c
           WHERE wanted_serial IS NULL AND c.tenant_id = m.tenant_id AND c.battery_product_id = m.battery_product_id
             AND c.batch_number = wanted_lot
           LIMIT 1),
         m.ceased_at, m.successor
    FROM (
      SELECT b.tenant_id, b.battery_product_id, coalesce(i.granularity, 'ITEM') AS granularity, i.gtin, b.battery_id,
             b.serial_number, b.battery_batch_id, b.ceased_at, b.successor, b.registered_at, b.registered_at AS begun_at
        FROM public.batteries b
        LEFT JOIN public.battery_identifications i ON i.tenant_id = b.tenant_id
                                                  AND i.battery_product_id = b.battery_product_id
       WHERE b.battery_id = wanted_id
      UNION ALL
      SELECT i.tenant_id, i.battery_product_id, i.granularity, i.gtin, b.battery_id, b.serial_number,
             b.battery_batch_id, b.ceased_at, b.successor, b.registered_at, t.created_at
        FROM public.battery_identifications i
        JOIN public.battery_products t ON t.tenant_id = i.tenant_id AND t.battery_product_id = i.battery_product_id
        LEFT JOIN public.batteries b ON b.tenant_id = i.tenant_id AND b.serial_number = wanted_serial
                                    AND b.battery_product_id = i.battery_product_id
       WHERE i.gtin = wanted_gtin) AS m
    LEFT JOIN public.passports p ON p.tenant_id = m.tenant_id AND p.battery_product_id = m.battery_product_id
   WHERE only_tenant IS NULL OR m.tenant_id = only_tenant
   ORDER BY m.registered_at NULLS LAST, m.begun_at, m.tenant_id LIMIT 1
$$;
REVOKE ALL ON FUNCTION find_public_item(uuid, text, text, text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_public_item(uuid, text, text, text, uuid) TO bpc_app;
