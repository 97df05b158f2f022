-- What the planner knows of the tables that a document of thousands of parts fills at once.
--
-- Without statistics it takes any index that begins with the tenant for as good as the right one, in our statements and
-- in the checks of foreign keys, and then reads all of a tenant's facts for each new one. PostgreSQL renews statistics
-- by itself, but up to a minute later, and never within the transaction that fills a table.
--
-- Renews what is known of each of these tables that has none, or has grown four times since. Rows of this transaction
-- count. Somebody else who renews at the same time is not waited for.
CREATE FUNCTION renew_statistics() RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'public'::regnamespace
       AND c.relname IN ('documents', 'document_versions', 'facts', 'fact_sources', 'data_snapshots', 'snapshot_items')
       AND (c.reltuples <= 0 OR pg_relation_size(c.oid) >= 4 * 8192 * greatest(c.relpages, 1)::bigint)
     ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('LOCK TABLE public.%I IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', name);
      EXECUTE format('ANALYZE public.%I', name);
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION renew_statistics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION renew_statistics() TO bpc_app;
