"""Specification of the border between tenants: what the database itself refuses, whatever the code above it does.

Tables, keys and references are taken from the catalog, so a table that is added later is held to the same.
"""

import json

import asyncpg
import pytest

from bpc.core.api_keys import PREFIX_LENGTH
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.access import api_keys
from bpc.storage.access.api_requests import find_caller
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE, Connection
from bpc.storage.database import Database, open_database
from tests.storage.catalogue import (
    COLUMNS,
    KEY_LOOKUP_TABLES,
    NEEDED_BESIDE,
    NOT_SYSTEM_SCHEMA,
    REFERENCES,
    TABLES,
    UNIQUE_KEYS,
    fetch_rows,
    list_tenant_tables,
)
from tests.storage.probes import NO_RIGHT, Superuser
from tests.storage.rows import PEPPER, fill_every_table, insert_actor
from tests.storage.statements import act_as_role, roll_back_after, try_statement

pytestmark = pytest.mark.external

NO_SUCH_ROW = "23503"  # foreign_key_violation

# Tables of the whole installation, and why.
GLOBAL_TABLES = {
    "permissions": "the names of permissions are part of the product",
    "signing_keys": "anyone may check a signature, and the keys are the installation's",
    "schema_migrations": "the schema is one for all",
    **dict.fromkeys(("log_entries", "log_checkpoints", "log_state"), "the log is public, and one for all tenants"),
    "jobs.job_worker": "a worker serves all tenants",
}
# Keys of tenants' tables that are unique over all tenants, and why.
GLOBAL_KEYS = {
    "tenants_slug_key": "a slug names a tenant before its id is known",
    "tenants_public_host_key": "a domain names a tenant before its id is known",
    "api_key_prefixes_pkey": "a prefix is all that a request shows before its tenant is known",
}
# Tables without a foreign key to tenants: of jobs a trigger asks once per statement, and the others belong to a job.
WITHOUT_A_REFERENCE = {"job", "job_ready", "job_later", "job_lease", "job_slot", "job_dependency"}
JOB_TABLES = {"batch", "schedule", *WITHOUT_A_REFERENCE}
# What the system role sees all of: it makes tenants, takes whatever job is next, and what waits for log or signature.
LOG_TABLES, STATUS_TABLES = ("log_outbox", "log_openings", "log_proofs"), ("status_lists", "status_statements")
SEEN_BY_THE_SYSTEM = {"tenants", "status_entries", *LOG_TABLES, *STATUS_TABLES} | {f"jobs.{t}" for t in JOB_TABLES}
WRITTEN_BY_THE_SYSTEM = {"retention_anchors", "removed_events", "log_openings", "log_proofs", "status_statements"}
# What speaks before row-level security does: a trigger (no event is at this anchor), and a place the queue gives.
REFUSED_FIRST = {"event_anchors": "BP001", "jobs.job_ready": "428C9"}
# Every row-level policy that is not simply "the own tenant's rows", and why.
OTHER_POLICIES = {
    **{(table, "all_jobs", "bpc_system", "ALL"): "workers serve all tenants" for table in JOB_TABLES},
    **{
        (table, "sequencer", "bpc_system", "ALL"): "the sequencer gives all tenants' entries their place"
        for table in LOG_TABLES
    },
    **{(table, "signed_for_all", "bpc_system", "SELECT"): "what is signed is public" for table in STATUS_TABLES},
    ("status_entries", "due_for_all", "bpc_system", "SELECT"): "a worker finds what is to be signed",
    ("tenants", "all_tenants", "bpc_system", "ALL"): "somebody has to make tenants and go through them",
    **{
        (table, "key_lookup", "bpc_owner", "SELECT"): "a key, and what it may, is found before its tenant is known"
        for table in KEY_LOOKUP_TABLES
    },
    ("tenants", "access_changes", "bpc_owner", "UPDATE"): "whoever changes access renews its version",
    ("console_sessions", "session_lookup", "bpc_owner", "SELECT"): "find_session runs as the owner",
    **{
        (table, "text_search", "bpc_owner", "SELECT"): "the search runs as the owner, for the bound tenant"
        for table in ("battery_products", "documents", "rule_packages")
    },
    **{
        (table, "address_lookup", "bpc_owner", "SELECT"): "an address is resolved before a tenant is known"
        for table in ("batteries", "battery_identifications", "battery_batches")
    },
    ("battery_transfers", "offers_to_others", "bpc_owner", "SELECT"): "who is offered a battery sees the open offer",
    ("view_grants", "code_lookup", "bpc_owner", "SELECT"): "whoever has a code has neither a tenant nor a key",
    ("passports", "public_lookup", "bpc_owner", "SELECT"): "whoever scans a battery knows its passport, and no tenant",
    ("events", "without_a_tenant", "bpc_owner", "SELECT"): "finds events in nobody's log, and no others",
}

# The row goes in as JSON, so that one statement does for every table.
INSERT_ROW = "INSERT INTO {0} SELECT (jsonb_populate_record(NULL::{0}, $1::text::jsonb)).*"


@pytest.fixture
async def two_full_tenants(database: Database, tenant: TenantId, other_tenant: TenantId, act: Act) -> None:
    """Two tenants with a row in every table."""
    await fill_every_table(database, tenant, act)
    await fill_every_table(database, other_tenant, act)


async def test_every_table_has_row_level_security_that_binds_even_its_owner_or_a_reason_not_to(
    superuser: Superuser,
) -> None:
    table_rows = await superuser.fetch(TABLES)

    assert {row["name"] for row in table_rows if not row["has_tenant"]} == GLOBAL_TABLES.keys()
    assert [row["name"] for row in table_rows if row["has_tenant"] and not row["is_forced"]] == []
    assert "tenants" in await list_tenant_tables(superuser)


async def test_every_key_and_every_reference_of_a_tenants_table_contains_the_tenant(superuser: Superuser) -> None:
    keys, references, unbound = set(), [], []
    for table in await superuser.fetch(TABLES):
        if not table["has_tenant"]:
            continue
        keys |= {row["name"] for row in await superuser.fetch(UNIQUE_KEYS, table["oid"]) if not has_tenant(row)}
        reference_rows = await superuser.fetch(REFERENCES, table["oid"])
        references += [(table["name"], row["name"]) for row in reference_rows if not same_tenant(row)]
        if table["name"] != "tenants" and "tenants" not in {row["target"] for row in reference_rows}:
            unbound.append(table["name"])

    assert keys == GLOBAL_KEYS.keys()
    assert references == []
    assert set(unbound) == {f"jobs.{table}" for table in WITHOUT_A_REFERENCE}, "a tenant_id that is no tenant's"


def has_tenant(key: asyncpg.Record) -> bool:
    return "tenant_id" in key["columns"]


def same_tenant(reference: asyncpg.Record) -> bool:
    """Whether the row that is pointed at is the same tenant's, or nobody's."""
    pairs = zip(reference["columns"], reference["targets"], strict=True)
    return ("tenant_id", "tenant_id") in pairs or reference["target"] in GLOBAL_TABLES


async def test_every_policy_that_shows_more_than_the_own_tenants_rows_has_a_reason(superuser: Superuser) -> None:
    tables = await list_tenant_tables(superuser)
    policies = await superuser.fetch("SELECT * FROM pg_policies ORDER BY schemaname, tablename, policyname")

    own = [row for row in policies if row["policyname"] == "own_tenant"]
    others = [row for row in policies if row["policyname"] != "own_tenant"]
    assert len(own) == len(tables)
    assert {(row["qual"] == row["with_check"], row["permissive"], row["cmd"]) for row in own} == {
        (True, "PERMISSIVE", "ALL")
    }
    assert {row["qual"] for row in own} == {
        "(tenant_id = ( SELECT current_tenant() AS current_tenant))",  # asked once per statement
    }
    assert {
        (row["tablename"], row["policyname"], ",".join(row["roles"]), row["cmd"]) for row in others
    } == OTHER_POLICIES.keys()


async def test_the_roles_of_the_product_are_ordinary_and_own_nothing(superuser: Superuser) -> None:
    attributes = await superuser.fetch(
        """SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication
             FROM pg_roles WHERE rolname = ANY ($1)""",
        [OWNER_ROLE, APP_ROLE, SYSTEM_ROLE],
    )
    owned = await superuser.fetch(
        """SELECT classid::regclass::text, objid FROM pg_shdepend
            WHERE deptype = 'o' AND refclassid = 'pg_authid'::regclass
              AND refobjid IN ('bpc_app'::regrole, 'bpc_system'::regrole)
              AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"""
    )
    becomes = await superuser.fetch(
        """SELECT u.rolname AS member, r.rolname AS role FROM pg_auth_members m
             JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
            WHERE u.rolname = ANY ($1)""",
        [OWNER_ROLE, APP_ROLE, SYSTEM_ROLE],
    )

    assert len(attributes) == 3
    assert [row for row in attributes if any(list(row.values())[1:])] == []
    assert owned == []
    assert [tuple(row.values()) for row in becomes] == [(SYSTEM_ROLE, APP_ROLE)]


async def test_the_public_has_no_right_on_any_table_column_or_function_of_ours(superuser: Superuser) -> None:
    rights = await superuser.fetch(
        f"""WITH given(what, acl) AS (
              SELECT c.oid::regclass::text, coalesce(c.relacl, acldefault('r', c.relowner))
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND {NOT_SYSTEM_SCHEMA}
              UNION ALL
              SELECT c.oid::regclass || '.' || a.attname, a.attacl
                FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE {NOT_SYSTEM_SCHEMA}
              UNION ALL
              SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
                FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE {NOT_SYSTEM_SCHEMA})
            SELECT what, privilege_type FROM given, aclexplode(acl) WHERE grantee = 0"""
    )

    # The login looks whether the schema is current before it takes on a role.
    assert [tuple(row.values()) for row in rights] == [("schema_migrations", "SELECT")]


@pytest.mark.usefixtures("two_full_tenants")
async def test_a_tenant_sees_its_own_rows_of_every_table_and_nobody_elses(
    database: Database, superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    tables = await list_tenant_tables(superuser)
    for table in tables:
        mine, others = await fetch_rows(superuser, table, tenant), await fetch_rows(superuser, table, other_tenant)
        assert mine, f"this test needs a row of each tenant in {table}"
        assert others, f"this test needs a row of each tenant in {table}"

        for within in (database.tenant, database.system):
            if within == database.system and table in SEEN_BY_THE_SYSTEM:
                continue
            async with within(tenant) as conn:
                seen = [row[0] for row in await conn.fetch(f"SELECT to_jsonb(t)::text AS x FROM {table} t ORDER BY x")]
            assert seen == mine, table


@pytest.mark.usefixtures("two_full_tenants")
async def test_a_statement_without_a_where_clause_touches_only_rows_of_its_tenant(
    superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    tables = await list_tenant_tables(superuser)
    before = {table: await fetch_rows(superuser, table, other_tenant) for table in tables}

    for role in (APP_ROLE, SYSTEM_ROLE, OWNER_ROLE):
        for table in tables:
            if role == SYSTEM_ROLE and table in SEEN_BY_THE_SYSTEM - {"tenants"}:
                continue  # what a worker does is bound by its statements
            columns = [row["name"] for row in await superuser.fetch(COLUMNS, table)]
            async with roll_back_after(superuser):
                await superuser.execute(f"SET LOCAL ROLE {role}; SET LOCAL app.tenant_id = '{tenant}'")
                for statement in [
                    *(f"UPDATE {table} SET {column} = {column}" for column in columns),
                    f"DELETE FROM {table}",
                ]:
                    await execute_if_allowed(superuser, statement)
                await superuser.execute("RESET ROLE")
                assert await fetch_rows(superuser, table, other_tenant) == before[table], (role, table)


async def execute_if_allowed(conn: Connection, statement: str) -> None:
    try:
        async with conn.transaction():
            await conn.execute(statement)
    except asyncpg.PostgresError:
        pass  # refused is also a way of not touching it


@pytest.mark.usefixtures("two_full_tenants")
async def test_row_level_security_alone_separates_tenants_without_rights_triggers_and_references(
    superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    async with roll_back_after(superuser):
        await superuser.execute("SET LOCAL session_replication_role = replica")  # no triggers, no foreign keys
        for table in await list_tenant_tables(superuser):
            await superuser.execute(f"GRANT ALL ON {table} TO {APP_ROLE}")
            count, others = (
                len(await fetch_rows(superuser, table, tenant)),
                await fetch_rows(superuser, table, other_tenant),
            )
            await superuser.execute(f"SET LOCAL ROLE {APP_ROLE}; SET LOCAL app.tenant_id = '{tenant}'")

            assert await try_statement(superuser, f"UPDATE {table} SET tenant_id = tenant_id") == f"UPDATE {count}", (
                table
            )
            assert await try_statement(superuser, f"UPDATE {table} SET tenant_id = '{other_tenant}'") == NO_RIGHT, table
            refused = await try_statement(superuser, INSERT_ROW.format(table), others[0])
            assert refused == (REFUSED_FIRST[table] if table == "jobs.job_ready" else NO_RIGHT), table
            assert await superuser.execute(f"DELETE FROM {table}") == f"DELETE {count}", table
            await superuser.execute("RESET ROLE")
            assert await fetch_rows(superuser, table, other_tenant) == others, table


@pytest.mark.usefixtures("two_full_tenants")
async def test_a_row_with_the_id_of_another_tenant_is_refused_in_every_table(
    superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    rows = [(name, await fetch_rows(superuser, name, other_tenant)) for name in await list_tenant_tables(superuser)]

    for role in (APP_ROLE, SYSTEM_ROLE, OWNER_ROLE):
        async with act_as_role(superuser, role, tenant):
            for table, others in rows:
                if role != SYSTEM_ROLE or table not in SEEN_BY_THE_SYSTEM:
                    refused = await try_statement(superuser, INSERT_ROW.format(table), others[0])
                    assert refused in {NO_RIGHT, REFUSED_FIRST.get(table, NO_RIGHT)}, (role, table)


@pytest.mark.usefixtures("two_full_tenants")
async def test_a_reference_to_another_tenants_row_is_refused_for_every_foreign_key(
    superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    references = [
        (table["name"], reference["name"], reference["target"], list_reference_columns(reference))
        for table in await superuser.fetch(TABLES)
        if table["has_tenant"]
        for reference in await superuser.fetch(REFERENCES, table["oid"])
        if reference["target"] not in GLOBAL_TABLES
    ]
    across = [pointer for pointer in references if pointer[3]]  # the others point at the tenant itself

    for table, name, target, columns in across:
        own_row = json.loads((await fetch_rows(superuser, table, tenant))[0])
        other_row = json.loads((await fetch_rows(superuser, target, other_tenant))[0])
        pointing = own_row | {column: other_row[target_column] for column, target_column in columns.items()}
        pointing |= NEEDED_BESIDE.get(name, {})
        async with roll_back_after(superuser):
            await delete_past_triggers(superuser, table, json.dumps(own_row))
            role = SYSTEM_ROLE if table in WRITTEN_BY_THE_SYSTEM else APP_ROLE
            await superuser.execute(f"SET LOCAL ROLE {role}; SET LOCAL app.tenant_id = '{tenant}'")

            assert await try_statement(superuser, INSERT_ROW.format(table), json.dumps(own_row)) == "INSERT 0 1", table
            assert await try_statement(superuser, INSERT_ROW.format(table), json.dumps(pointing)) == NO_SUCH_ROW, name

    assert len(across) > 25


def list_reference_columns(reference: asyncpg.Record) -> dict[str, str]:
    """Which column points at which, without the tenant."""
    pairs = zip(reference["columns"], reference["targets"], strict=True)
    return {column: target_column for column, target_column in pairs if column != "tenant_id"}


async def delete_past_triggers(superuser: Connection, table: str, row: str) -> None:
    """Remove a row past all triggers, so that a copy of it breaks no unique key; rules take fields as drafts only."""
    await superuser.execute("SET LOCAL session_replication_role = replica")
    if table == "rule_fields":
        await superuser.execute("UPDATE rule_package_versions SET status = 'DRAFT'")
    assert await superuser.execute(f"DELETE FROM {table} t WHERE to_jsonb(t) = $1::text::jsonb", row) == "DELETE 1"
    await superuser.execute("SET LOCAL session_replication_role = origin")


@pytest.mark.usefixtures("two_full_tenants")
async def test_without_a_tenant_nothing_can_be_read_or_written(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    tables = await list_tenant_tables(superuser)
    rows = {table: (await fetch_rows(superuser, table, tenant))[0] for table in tables}

    for role in (APP_ROLE, SYSTEM_ROLE):
        async with act_as_role(superuser, role):
            for table in tables:
                if role == SYSTEM_ROLE and table in SEEN_BY_THE_SYSTEM:
                    continue
                assert await superuser.fetchval(f"SELECT count(*) FROM {table}") == 0, (role, table)
                refused = await try_statement(superuser, INSERT_ROW.format(table), rows[table])
                assert refused in {NO_RIGHT, REFUSED_FIRST.get(table, NO_RIGHT)}, (role, table)
    async with database.system() as conn:
        slugs = [row["slug"] for row in await conn.fetch("SELECT slug FROM tenants ORDER BY slug")]
    assert slugs == ["acme", "rival", "system"]


async def test_a_connection_that_served_a_tenant_shows_nothing_to_a_plain_query(
    address: Address, database: Database, tenant: TenantId
) -> None:
    pool_of_one = await open_database(address, pool_size=1)
    try:
        async with pool_of_one.tenant(tenant) as conn:
            served = await conn.fetchval("SELECT pg_backend_pid()")
            assert await conn.fetchval("SELECT count(*) FROM roles") == 3

        now = await pool_of_one.pool.fetchrow(
            """SELECT pg_backend_pid() AS pid, current_user AS role, current_tenant() AS tenant,
                      (SELECT count(*) FROM roles) + (SELECT count(*) FROM tenants) AS visible"""
        )

        assert now is not None
        assert tuple(now.values()) == (served, APP_ROLE, None, 0)
    finally:
        await pool_of_one.close()


async def test_a_key_is_found_by_its_exact_prefix_and_by_nothing_else(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        issued = await api_keys.create_key(conn, tenant, await insert_actor(conn, tenant, act), pepper=PEPPER, act=act)
    prefix = issued.api_key.prefix
    near = [prefix[:-1], prefix + "0", prefix.swapcase(), f" {prefix}", f"{prefix}\n", "%", "_" * PREFIX_LENGTH, ""]

    async with database.tenant(other_tenant) as conn:  # the question is asked before the tenant is known
        stored_key = await find_caller(conn, prefix)
        misses = [await find_caller(conn, text) for text in near]
        unknown = await conn.fetch("SELECT * FROM find_api_key(NULL)")
        otherwise = [await conn.fetchval(f"SELECT count(*) FROM {table}") for table in ("api_keys", "api_key_prefixes")]

    assert stored_key is not None
    assert (stored_key.tenant_id, stored_key.api_key_id) == (tenant, issued.api_key_id)
    assert misses == [None] * len(near)
    assert unknown == []
    assert otherwise == [0, 0]


async def test_the_system_tenant_is_as_separate_as_any_other(database: Database, tenant: TenantId) -> None:
    async with database.tenant(SYSTEM_TENANT) as conn:
        slugs = [row["slug"] for row in await conn.fetch("SELECT slug FROM tenants")]
        roles = await conn.fetchval("SELECT count(*) FROM roles")

    assert (slugs, roles) == (["system"], 0)
