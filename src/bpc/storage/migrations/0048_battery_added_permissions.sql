-- Permissions for batteries: registering them, sending their readings, saying what becomes of them.
-- The three roles that every tenant starts with get those that they would start with today, each on record
-- (bpc.storage.access.added_permissions), after this file.

INSERT INTO permissions (permission) VALUES ('battery:register'), ('battery:readings'), ('battery:status');
