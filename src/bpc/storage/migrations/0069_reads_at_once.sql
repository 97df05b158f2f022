-- Stored bytes of a version in one round trip: the tenant is set for the transaction first, then the caller's access is
-- compared, then the bytes are read; each is a statement of its own, so their order is certain. It reads what the
-- application may read: row-level security applies as always.
CREATE FUNCTION read_version_at_once(the_tenant uuid, known uuid, the_version uuid, which text,
                                     OUT is_current boolean, OUT content bytea, OUT waived integer)
  LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('app.tenant_id', the_tenant::text, true);
  PERFORM FROM tenants WHERE tenant_id = the_tenant AND access_version = known;
  is_current := FOUND;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  CASE which
    WHEN 'payload' THEN
      SELECT payload_canonical INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
    WHEN 'receipt' THEN
      SELECT receipt_canonical INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
    WHEN 'view' THEN  -- its bytes are kept by whoever asks; here only whether it may still be shown
      SELECT '' INTO content FROM passport_versions
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
      SELECT coalesce(sum(entries), 0) INTO waived FROM passport_waivers
       WHERE tenant_id = the_tenant AND passport_version_id = the_version;
  END CASE;
END $$;
REVOKE ALL ON FUNCTION read_version_at_once(uuid, uuid, uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION read_version_at_once(uuid, uuid, uuid, text) TO bpc_app;
