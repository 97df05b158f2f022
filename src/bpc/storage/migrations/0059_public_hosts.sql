-- locks: tenants: an index over the few tenants that have a domain, built at once
-- The domain under which the public pages of one tenant are. Only an operator assigns it.
ALTER TABLE tenants ADD COLUMN public_host text
  CONSTRAINT tenants_public_host_check CHECK (public_host ~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$');
CREATE UNIQUE INDEX tenants_public_host_key ON tenants (public_host) WHERE public_host IS NOT NULL;
GRANT UPDATE (public_host) ON tenants TO bpc_system;
