-- locks: battery_products: an index over the texts of each product, built in seconds for a hundred thousand
-- Finding by a part of a text, whatever its case. An index on all pairs and triples of characters of a text finds the rows
-- that may have the part; each is then compared. No extension is needed, and the rows of other tenants cost nothing,
-- because the tenant is part of what is hashed.
--
-- Row-level security keeps such a comparison away from the index: it would have to be leakproof. So the search is a function
-- that runs as the owner, sees the rows of the bound tenant alone, and returns ids.

-- Letters in lower case: Latin, Greek and Cyrillic, the same in every locale of a server. Most texts are ASCII, for
-- which that is quick.
CREATE FUNCTION fold_case(content text) RETURNS text
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN octet_length(content) = length(content) THEN lower(content COLLATE "C") ELSE
           translate(
             lower(content COLLATE "C"),
             'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹ'
             'ŻŽΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐȘȚẞ',
             'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿź'
             'żžάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋѐёђѓєѕіїјљњћќѝўџабвгдежзийклмнопрстуфхцчшщъыьэюяґșțß') END
$$;
REVOKE ALL ON FUNCTION fold_case(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fold_case(text) TO bpc_app;

-- The parts of a text with `smallest` to 3 characters, as hashes that differ between tenants.
CREATE FUNCTION search_grams(tenant uuid, content text, smallest int) RETURNS bigint[]
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 1000 SET search_path = pg_catalog, public AS $$
  SELECT coalesce(array_agg(hashtextextended(substr(folded, place, size), seed)), '{}')
    FROM (SELECT fold_case(content) AS folded, hashtextextended(tenant::text, 0) AS seed) AS folding
   CROSS JOIN generate_series(smallest, 3) AS size
   CROSS JOIN LATERAL generate_series(1, length(folded) - size + 1) AS place
$$;
REVOKE ALL ON FUNCTION search_grams(uuid, text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_grams(uuid, text, int) TO bpc_app;

CREATE INDEX IF NOT EXISTS battery_products_by_text ON battery_products
  USING gin (search_grams(tenant_id, sku || ' ' || name, 2));
CREATE INDEX IF NOT EXISTS battery_products_inactive ON battery_products (tenant_id, created_at, battery_product_id)
  WHERE NOT is_active;

CREATE POLICY text_search ON battery_products FOR SELECT TO bpc_owner USING (true);
CREATE FUNCTION find_products_by_text(needle text, most int) RETURNS SETOF uuid
  LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, public SET plan_cache_mode = force_custom_plan AS $$
BEGIN
  RETURN QUERY
  SELECT battery_product_id FROM battery_products
   WHERE tenant_id = current_tenant()
     AND search_grams(tenant_id, sku || ' ' || name, 2)
         @> search_grams(current_tenant(), needle, least(3, length(needle)))
     AND position(fold_case(needle) IN fold_case(sku || ' ' || name)) > 0
   LIMIT most;
END $$;
REVOKE ALL ON FUNCTION find_products_by_text(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_products_by_text(text, int) TO bpc_app;
