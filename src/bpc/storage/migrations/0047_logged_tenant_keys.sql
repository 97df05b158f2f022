-- The log shows what happens to keys of tenants, and compromises.
-- Keys of the installation are announced in several tenants, and logged once; a key of a tenant has events there alone.

DROP TRIGGER events_join_the_log ON events;
CREATE TRIGGER events_join_the_log AFTER INSERT ON events
  FOR EACH ROW WHEN (NEW.event_type IN (
      'PASSPORT_SIGNED', 'PASSPORT_ACTIVATED', 'PASSPORT_SUPERSEDED', 'PASSPORT_REVOKED', 'PASSPORT_WAIVED',
      'RULES_PUBLISHED', 'RetentionApplied', 'TENANT_KEY_CREATED', 'TENANT_KEY_RETIRED', 'TENANT_KEY_COMPROMISED')
    OR NEW.event_type IN ('SIGNING_KEY_CREATED', 'SIGNING_KEY_CHANGED', 'SIGNING_KEY_COMPROMISED')
       AND NEW.tenant_id = '00000000-0000-4000-8000-000000000001')
  EXECUTE FUNCTION put_into_log_outbox();
