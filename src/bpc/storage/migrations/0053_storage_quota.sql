-- How many bytes a tenant may store; NULL takes the default of the installation, 0 is no limit. Only an operator sets it.
ALTER TABLE tenants ADD COLUMN storage_quota_bytes bigint
  CONSTRAINT tenants_storage_quota_check CHECK (storage_quota_bytes >= 0);
GRANT UPDATE (storage_quota_bytes) ON tenants TO bpc_system;
