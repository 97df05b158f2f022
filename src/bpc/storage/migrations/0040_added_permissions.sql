-- Permissions for bundles and for views without `passport:read`. The three roles that every tenant starts with get those
-- that they would start with today, each on record (bpc.storage.access.added_permissions), after this file.

INSERT INTO permissions (permission) VALUES ('passport:bundle'), ('view:interest'), ('view:authority');
