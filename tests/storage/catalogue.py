"""What the catalogue of PostgreSQL says about our tables, and the rows of a tenant in each of them."""

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection

# What is asked of a key before its tenant is known.
KEY_LOOKUP_TABLES = (
    *("tenants", "actors", "api_keys", "api_key_prefixes"),
    *("roles", "role_permissions", "actor_roles", "policy_versions"),
)
# Where a check asks for another column with a reference.
NEEDED_BESIDE = {
    "view_grants_tenant_id_passport_id_fkey": {"scope": "MODEL"},
    "view_grants_tenant_id_battery_id_fkey": {"scope": "ITEM"},
}
NOT_SYSTEM_SCHEMA = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'"
TABLES = f"""
    SELECT c.oid, c.oid::regclass::text AS name, c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
           EXISTS (SELECT FROM pg_attribute a
                    WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped) AS has_tenant
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND {NOT_SYSTEM_SCHEMA}
     ORDER BY name
"""
UNIQUE_KEYS = """
    SELECT i.indexrelid::regclass::text AS name,
           array(SELECT a.attname::text FROM pg_attribute a
                  WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])) AS columns
      FROM pg_index i WHERE i.indisunique AND i.indrelid = $1
"""
REFERENCES = """
    SELECT k.conname AS name, k.confrelid::regclass::text AS target,
           array(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS key(number, place)
                   JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = key.number ORDER BY place) AS columns,
           array(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS key(number, place)
                   JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = key.number ORDER BY place) AS targets
      FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = $1
"""
COLUMNS = """
    SELECT attname::text AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
"""


async def list_tenant_tables(conn: Connection) -> list[str]:
    return [row["name"] for row in await conn.fetch(TABLES) if row["has_tenant"]]


async def fetch_rows(superuser: Connection, table: str, tenant: TenantId) -> list[str]:
    """All rows of a tenant as JSON, seen by somebody who sees everything."""
    query = f"SELECT to_jsonb(t)::text AS line FROM {table} t WHERE tenant_id = $1 ORDER BY line"
    return [row["line"] for row in await superuser.fetch(query, tenant)]
