-- What every installation has: the permissions, and the tenant of jobs that belong to no tenant.

INSERT INTO permissions (permission) VALUES
  ('passport:read'), ('passport:compile'), ('passport:sign'), ('passport:replay'), ('passport:revoke'),
  ('rules:read'), ('rules:write'), ('rules:publish'), ('rules:test'),
  ('docs:upload'), ('docs:read'),
  ('snapshot:build'), ('snapshot:seal'),
  ('audit:read'),
  ('access:admin'), ('tenant:admin'),
  ('jobs:read'), ('jobs:admin');

SELECT set_config('app.tenant_id', '00000000-0000-4000-8000-000000000001', true);
INSERT INTO tenants (tenant_id, slug, name)
VALUES ('00000000-0000-4000-8000-000000000001', 'system', 'System');
