"""GraphQL: one query over what the REST routes show, with the same permissions, tenants and cursors."""
