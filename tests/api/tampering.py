"""Changing the database behind the product's back: as superuser, with triggers and checks off.

async with tamper(superuser) as conn:        # rolled back at the end
    await change_column(conn, tenant, table, "status")
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.formats.ids import TenantId
from bpc.storage.audit.state_table import StateTable
from bpc.storage.audit.state_tables import STATE_TABLES
from bpc.storage.connection import Connection

SELECT_TYPE: Final = """
    SELECT data_type, udt_name FROM information_schema.columns
     WHERE table_schema || '.' || table_name = $1 AND column_name = $2
"""
SELECT_CHECKS: Final = """
    SELECT conrelid::regclass::text AS table_name, conname FROM pg_constraint WHERE contype IN ('c', 'f', 'u')
       AND connamespace IN ('public'::regnamespace, 'jobs'::regnamespace) AND conname <> 'events_chain_key'
"""
OTHER_VALUES: Final = {
    "text": "coalesce({0}, '') || 'x'",
    "boolean": "NOT coalesce({0}, false)",
    "integer": "coalesce({0}, 0) + 1",
    "bigint": "coalesce({0}, 0) + 1",
    "uuid": "gen_random_uuid()",
    "bytea": "sha256(coalesce({0}, ''))",
    "jsonb": "'{{\"x\": 1}}'::jsonb",
    "ARRAY": "array_append({0}, 'x')",
    "timestamp with time zone": "coalesce({0}, now()) + interval '1 second'",
    "date": "coalesce({0}, current_date) + 1",
}


@dataclass(frozen=True, slots=True)
class HiddenChange:
    """A statement that changes what a table stands for in another one, and the column that is named for it."""

    table: str
    column: str
    statement: str


# $1 is the tenant.
HIDDEN_CHANGES: Final = (
    HiddenChange("approvals", "body_sha256", "UPDATE approvals SET body = 'x' WHERE tenant_id = $1"),
    HiddenChange("api_keys", "key_hash_sha256", "UPDATE api_keys SET key_hash = sha256('x') WHERE tenant_id = $1"),
    HiddenChange("document_versions", "facts", "DELETE FROM fact_sources WHERE tenant_id = $1"),
    HiddenChange("document_versions", "facts", "UPDATE facts SET fact_key = fact_key || 'x' WHERE tenant_id = $1"),
    HiddenChange("document_versions", "content", "UPDATE document_versions SET content = NULL WHERE tenant_id = $1"),
    HiddenChange("rule_package_versions", "fields", "UPDATE rule_fields SET audiences = '{}' WHERE tenant_id = $1"),
    HiddenChange("rule_package_versions", "fields", "DELETE FROM rule_fields WHERE tenant_id = $1"),
    HiddenChange("rule_tests_runs", "details", "UPDATE rule_tests_runs SET coverage = '{}' WHERE tenant_id = $1"),
    HiddenChange("data_snapshots", "items", "DELETE FROM snapshot_items WHERE tenant_id = $1"),
    HiddenChange("data_snapshots", "snapshot_items", "DELETE FROM snapshot_items WHERE tenant_id = $1"),
    HiddenChange("data_snapshots", "snapshot_items", "DELETE FROM facts WHERE tenant_id = $1"),
    HiddenChange("facts", "payload_canonical", "UPDATE facts SET payload_canonical = '{}' WHERE tenant_id = $1"),
    HiddenChange("facts", "payload", "UPDATE facts SET payload = '{}' WHERE tenant_id = $1"),
    HiddenChange(
        "policy_versions", "policy_json", "UPDATE policy_versions SET policy_json = '{}' WHERE tenant_id = $1"
    ),
    HiddenChange(
        "passports",
        "current_passport_version_id",
        "UPDATE passports SET current_passport_version_id = NULL WHERE tenant_id = $1",
    ),
    HiddenChange("status_entries", "state", "UPDATE status_entries SET state = 0 WHERE tenant_id = $1"),
    HiddenChange("status_entries", "state", "UPDATE status_entries SET state = 3 WHERE tenant_id = $1"),
    HiddenChange(
        "status_entries", "statement_due", "UPDATE status_entries SET statement_due = false WHERE tenant_id = $1"
    ),
    HiddenChange("passport_versions", "status", "DELETE FROM status_entries WHERE tenant_id = $1"),
    HiddenChange(
        "status_statements",
        "document",
        """INSERT INTO status_statements (tenant_id, passport_version_id, state, signed_at, document)
           SELECT tenant_id, passport_version_id, 0, now(), convert_to(json_build_object('statusListIndex', '-1',
                  'statusListCredential', 'https://x/' || list_id)::text, 'UTF8')
             FROM status_entries WHERE tenant_id = $1""",
    ),
    HiddenChange(
        "battery_identifications",
        "fixed_at",
        "UPDATE battery_identifications SET fixed_at = now() WHERE tenant_id = $1",
    ),
    HiddenChange(
        "battery_identifications",
        "granularity",
        "UPDATE battery_identifications SET fixed_at = changed_at WHERE tenant_id = $1",
    ),
    HiddenChange(
        "api_key_prefixes", "key_prefix", "INSERT INTO api_key_prefixes (key_prefix, tenant_id) VALUES ('zz', $1)"
    ),
)


@asynccontextmanager
async def tamper(superuser: Connection) -> AsyncIterator[Connection]:
    """A transaction without triggers and constraints, rolled back at the end."""
    transaction = superuser.transaction()
    await transaction.start()
    try:
        await superuser.execute("SET LOCAL session_replication_role = replica")
        for row in await superuser.fetch(SELECT_CHECKS):
            if row["table_name"] != "-":
                await superuser.execute(
                    f"ALTER TABLE {row['table_name']} DROP CONSTRAINT IF EXISTS {row['conname']} CASCADE"
                )
        yield superuser
    finally:
        await transaction.rollback()


def list_tables() -> list[StateTable]:
    """The tables of a tenant that follow from events."""
    return [table for table in STATE_TABLES if table.owner is not None and not table.may_appear]


async def list_stored_columns(conn: Connection, table: StateTable) -> list[str]:
    """The compared columns that are columns of the table itself."""
    return [name for name in table.columns if await conn.fetchrow(SELECT_TYPE, f"public.{table.name}", name)]


async def change_column(conn: Connection, tenant: TenantId, table: StateTable, column: str) -> None:
    """Give a column of every row of a tenant another value."""
    data_type = await conn.fetchrow(SELECT_TYPE, f"public.{table.name}", column)
    if data_type is None:
        raise AssertionError(column)
    if data_type["data_type"] == "USER-DEFINED" and data_type["udt_name"] != "hash256":
        kind = data_type["udt_name"]
        value = f"(SELECT label FROM unnest(enum_range(NULL::{kind})) AS label WHERE label <> t.{column} LIMIT 1)"
    else:
        value = OTHER_VALUES[data_type["data_type"]].format(f"t.{column}")
    await conn.execute(f"UPDATE {table.name} t SET {column} = {value} WHERE tenant_id = $1 AND {table.where}", tenant)


async def delete_rows(conn: Connection, tenant: TenantId, table: StateTable) -> None:
    """Delete every row of a tenant."""
    await conn.execute(f"DELETE FROM {table.name} t WHERE t.tenant_id = $1 AND {table.where}", tenant)


async def add_row(conn: Connection, tenant: TenantId, table: StateTable) -> None:
    """Copy a row of a tenant under another key."""
    key = {"actor_roles": "role_id", "column_mappings": "version", "tenant_settings": None}.get(
        table.name, table.key[-1]
    )
    if key is None or table.name == "tenants":
        return
    await conn.execute(f"ALTER TABLE {table.name} DROP CONSTRAINT IF EXISTS {table.name}_pkey CASCADE")
    indexes = await conn.fetch("SELECT indexname FROM pg_indexes WHERE tablename = $1", table.name)
    for row in indexes:
        await conn.execute(f"DROP INDEX IF EXISTS {row['indexname']} CASCADE")
    data_type = await conn.fetchrow(SELECT_TYPE, f"public.{table.name}", key)
    if data_type is None:
        raise AssertionError(table.name)
    value = OTHER_VALUES[data_type["data_type"]].format(f"t.{key}")
    if table.name == "actor_roles":
        value = "(SELECT role_id FROM roles r WHERE r.tenant_id = t.tenant_id AND r.name = 'ComplianceOfficer')"
    columns = await conn.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND table_schema = 'public'",
        table.name,
    )
    names = [row["column_name"] for row in columns]
    values = [value if name == key else f"t.{name}" for name in names]
    await conn.execute(
        f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {table.name} t"
        f" WHERE t.tenant_id = $1 AND {table.where} LIMIT 1",
        tenant,
    )


def list_faults(verification: Any) -> set[tuple[str, str, str | None]]:
    """Table, problem and column of each fault of the state."""
    return {(fault.table, fault.problem, fault.column) for fault in verification.state.faults}
