"""Specification of what never changes: the database refuses it to the application, the system and the tables' owner.

What may change is listed here, each with the test that it does: a status forward, time stamps and other columns
once, and what retention removes. Columns come from the catalog, so one that is added later is frozen or listed.
"""

from itertools import product
from typing import Final

import pytest

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE
from bpc.storage.database import Database
from tests.storage import evidence_rows, rows
from tests.storage.access_and_job_rows import (
    insert_approval,
    insert_log_rows,
    insert_policy_version,
    insert_session,
    insert_status_rows,
    insert_view_grants,
)
from tests.storage.battery_rows import insert_battery_rows, insert_item_rows, name_items
from tests.storage.probes import CHECK, COLUMNS, NO_RIGHT, REFUSED, ROLES, Superuser, make_other_value
from tests.storage.statements import act_as_role, try_statement

pytestmark = pytest.mark.external

PROTECTED: Final = (
    "events",
    "event_anchors",
    "retention_anchors",
    "removed_events",
    "document_versions",
    "document_texts",
    "document_statements",
    "fact_decisions",
    "column_mappings",
    "attachments",
    "attachment_withdrawals",
    "batteries",
    "battery_batches",
    "battery_changes",
    "battery_readings",
    "battery_registrations",
    "battery_transfers",
    "reading_deliveries",
    "item_runs",
    "item_chunks",
    "item_passport_versions",
    "batch_passport_versions",
    "facts",
    "fact_sources",
    "data_snapshots",
    "snapshot_items",
    "rule_package_versions",
    "rule_fields",
    "rule_tests_runs",
    "passport_versions",
    "passport_waivers",
    "approvals",
    "actor_identities",
    "console_sessions",
    "view_requests",
    "view_grants",
    "compile_runs",
    "compile_run_rows",
    "policy_versions",
    "signing_keys",
    "log_entries",
    "log_openings",
    "log_checkpoints",
    "log_proofs",
    "status_statements",
)
# Of rows that have come to the end of their way, nothing can be updated but this.
STILL_CHANGES: Final = {
    ("policy_versions", "is_active"): "a policy is put in force and out of it",
    ("passport_versions", "replayed_at"): "a version may be replayed at any time",
    ("item_runs", "stopped_at"): "a run may be stopped and resumed at any time",
    ("item_runs", "resumed"): "the same",
}
# And nothing can be deleted but this, by the one role that runs retention.
# Of events what lies behind an anchor, see test_events.py.
RETENTION_DELETES: Final = {(SYSTEM_ROLE, table) for table in ("passport_versions", "document_texts")}
# But no version that batteries pin as their model.
NOT_PINNED: Final = {
    "passport_versions": " WHERE passport_version_id NOT IN (SELECT model_version_id FROM item_runs)",
}
# What is deactivated or retired, never deleted.
NEVER_DELETED: Final = (
    "tenants",
    "tenant_settings",
    "actors",
    "documents",
    "battery_products",
    "battery_identifications",
    "rule_packages",
    "rule_catalogues",
    "passports",
    "api_keys",
    "status_lists",
    "status_entries",
)

GUARDED: Final = r"SELECT tgrelid::regclass::text AS name FROM pg_trigger WHERE tgname LIKE '%\_not\_truncated'"


@pytest.fixture
async def final_rows(database: Database, tenant: TenantId, act: Act) -> None:
    """A row in every protected table that has gone all its way."""
    await rows.insert_signing_keys(database)
    async with database.system(tenant) as conn:
        await evidence_rows.insert_snapshot(
            conn, tenant, status="SEALED", fact=await evidence_rows.insert_fact(conn, tenant)
        )
        await rows.insert_rule_version(conn, tenant, status="RETIRED")
        await rows.insert_compile_run(conn, tenant, await rows.insert_rule_version(conn, tenant))
        await insert_policy_version(conn, tenant)
        await rows.insert_anchor(conn, tenant, act)
        await evidence_rows.insert_document_text(conn, tenant)
        await evidence_rows.insert_statement_and_decision(conn, tenant, act)
        await evidence_rows.insert_supplier_rows(conn, tenant)
        await evidence_rows.insert_attachment(conn, tenant)
        version = await rows.insert_passport_version(
            conn, tenant, status="REVOKED", qr_png=b"png", qr_payload="{}", activated_at=act.at, superseded_at=act.at
        )
        await rows.insert_setting_and_waiver(conn, tenant, act, version=version)
        await insert_log_rows(conn, tenant)
        battery = await insert_battery_rows(conn, tenant, act)
        model = await rows.insert_passport_version(
            conn, tenant, status="REVOKED", qr_png=b"png", qr_payload="{}", activated_at=act.at, superseded_at=act.at
        )
        ids = name_items(tenant, battery, *(clock.new_id() for _ in range(3)))
        await insert_item_rows(conn, ids, model, at=act.at)
        await insert_status_rows(conn, tenant)
        await insert_approval(conn, tenant, await rows.insert_actor(conn, tenant, act))
        await insert_session(conn, tenant, await rows.insert_actor(conn, tenant, act))
        await insert_view_grants(conn, tenant, await rows.insert_passport(conn, tenant), act)
        await conn.execute("UPDATE signing_keys SET status = 'RETIRED', retired_at = now()")


@pytest.mark.usefixtures("final_rows")
async def test_no_column_of_a_finished_row_can_be_changed_by_anybody(superuser: Superuser, tenant: TenantId) -> None:
    columns = [(table, column) for table in PROTECTED for column in await superuser.fetch(COLUMNS, table)]

    for role in ROLES:
        async with act_as_role(superuser, role, tenant):
            for table, column in columns:
                statement = f"UPDATE {table} SET {column['name']} = {make_other_value(column)}"
                result = await try_statement(superuser, statement)

                if (table, column["name"]) in STILL_CHANGES:
                    assert result.removeprefix("UPDATE ") in {"1", "2"}, (role, statement)
                elif role == OWNER_ROLE:  # who lacks no right: it is the trigger that refuses
                    assert result == REFUSED, (role, statement)
                else:
                    assert result in {NO_RIGHT, REFUSED}, (role, statement)


@pytest.mark.usefixtures("final_rows")
async def test_no_finished_row_can_be_deleted_but_by_retention_and_no_table_emptied(
    superuser: Superuser, tenant: TenantId
) -> None:
    guarded = await superuser.fetch(GUARDED)
    assert {row["name"] for row in guarded} == set(PROTECTED), "a table is guarded and not tested, or the reverse"
    for role, table in product(ROLES, PROTECTED):
        async with act_as_role(superuser, role, tenant):
            rows_of_table = f"{table}{NOT_PINNED.get(table, '')}"
            delete_result = await try_statement(superuser, f"DELETE FROM {rows_of_table}")
            truncate_result = await try_statement(superuser, f"TRUNCATE {table} CASCADE")

            if (role, table) in RETENTION_DELETES:
                count = await superuser.fetchval(f"SELECT count(*) FROM {rows_of_table}")
                assert delete_result == f"DELETE {count}" != "DELETE 0", (role, table)
            else:
                assert delete_result in ({REFUSED} if role == OWNER_ROLE else {NO_RIGHT, REFUSED}), (role, table)
            assert truncate_result == (REFUSED if role == OWNER_ROLE else NO_RIGHT), (role, table)
    async with act_as_role(superuser, OWNER_ROLE, tenant):
        assert await try_statement(superuser, "TRUNCATE tenants CASCADE") == REFUSED


@pytest.mark.usefixtures("final_rows")
async def test_a_deactivated_row_is_not_deleted_and_keeps_its_identity(superuser: Superuser, tenant: TenantId) -> None:
    for role, table in product((APP_ROLE, SYSTEM_ROLE), NEVER_DELETED):
        async with act_as_role(superuser, role, tenant):
            assert await try_statement(superuser, f"DELETE FROM {table}") == NO_RIGHT, (role, table)
            assert await try_statement(superuser, f"TRUNCATE {table} CASCADE") == NO_RIGHT, (role, table)
            for column in await superuser.fetch(COLUMNS, table):
                if column["name"] in {"tenant_id", "created_at"} or column["name"] == f"{table[:-1]}_id":
                    statement = f"UPDATE {table} SET {column['name']} = {make_other_value(column)}"
                    assert await try_statement(superuser, statement) == NO_RIGHT, (role, statement)


async def test_a_passport_version_is_signed_once_and_all_at_once(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        open_key = await rows.insert_passport_version(conn, tenant)
        fixed_key = await rows.insert_passport_version(conn, tenant, signing_key_id=rows.KEY_ID)

    def update_version(assignments: str) -> str:
        return f"UPDATE passport_versions SET {assignments} WHERE passport_version_id = $1"

    signature = f"signature = '\\x{rows.SIGNATURE.hex()}'"
    receipt = "receipt_canonical = '\\x7b7d'"
    same_key, other_key = (f"signing_key_id = '{key}'" for key in (rows.KEY_ID, rows.OTHER_KEY_ID))
    all_columns = f"status = 'SIGNED', {signature}, {receipt}"
    for role in ROLES:
        async with act_as_role(superuser, role, tenant):
            assert await try_statement(superuser, update_version(receipt), open_key) == REFUSED
            assert await try_statement(superuser, update_version(same_key), open_key) == REFUSED
            assert await try_statement(superuser, update_version(signature), open_key) == CHECK, "signed but not SIGNED"
            assert await try_statement(superuser, update_version("status = 'SIGNED'"), open_key) == CHECK, (
                "SIGNED but not signed"
            )
            assert await try_statement(superuser, update_version(all_columns), open_key) == CHECK, "by no key"
            assert await try_statement(superuser, update_version(f"{all_columns}, {other_key}"), fixed_key) == REFUSED
            assert await try_statement(superuser, update_version(f"{all_columns}, {same_key}"), fixed_key) == "UPDATE 1"

            assert await superuser.execute(update_version(f"{all_columns}, {same_key}"), open_key) == "UPDATE 1"
            for again in (signature, receipt, same_key, other_key, f"{all_columns}, {same_key}", "signature = NULL"):
                assert await try_statement(superuser, update_version(again), open_key) == REFUSED, again


TIMES: Final = ("activated_at", "superseded_at", "revoked_at")


async def test_qr_code_and_time_stamps_are_written_once(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        passport = await rows.insert_passport_version(conn, tenant, status="SIGNED")
        rules = await rows.insert_rule_version(conn, tenant, status="VALIDATED")
    columns = [
        *(("passport_versions", "passport_version_id", passport, name, "now()") for name in TIMES),
        ("passport_versions", "passport_version_id", passport, "qr_png", "'\\x01'::bytea"),
        ("passport_versions", "passport_version_id", passport, "qr_payload", "'{}'"),
        ("rule_package_versions", "rule_package_version_id", rules, "published_at", "now()"),
    ]

    for role, (table, key, row, column, value) in product(ROLES, columns):
        async with act_as_role(superuser, role, tenant):
            change = f"UPDATE {table} SET {column} = %s WHERE {key} = $1"
            assert await superuser.execute(change % value, row) == "UPDATE 1", (role, column)

            other_value = "'other'" if column.startswith("qr") else "now() + interval '1 second'"
            assert await try_statement(superuser, change % other_value, row) == REFUSED, (role, column)
            assert await try_statement(superuser, change % "NULL", row) == REFUSED, (role, column)


async def test_only_retention_removes_the_content_of_a_document_and_nothing_replaces_it(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        await evidence_rows.insert_document_version(conn, tenant, status="VALIDATED")
    removal = "UPDATE document_versions SET content = NULL, content_removed_at = now()"

    for role in (APP_ROLE, OWNER_ROLE):
        async with act_as_role(superuser, role, tenant):
            assert await try_statement(superuser, removal) == REFUSED
    async with act_as_role(superuser, SYSTEM_ROLE, tenant):
        assert await try_statement(superuser, "UPDATE document_versions SET content = NULL") == CHECK, (
            "without saying when"
        )
        assert await superuser.execute(removal) == "UPDATE 1"
        for again in (
            removal,
            "UPDATE document_versions SET content_removed_at = now() + interval '1 day'",
            "UPDATE document_versions SET content = 'other', content_removed_at = NULL",
            "UPDATE document_versions SET content = 'other', content_removed_at = NULL, content_restored_at = now()",
            "UPDATE document_versions SET content_restored_at = now()",
        ):
            assert await try_statement(superuser, again) == REFUSED, again
        assert await superuser.fetchval("SELECT count(sha256) FROM document_versions WHERE status = 'VALIDATED'") == 1


async def test_only_retention_removes_passport_versions_and_only_superseded_and_revoked_ones(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        row_ids = {
            status: await rows.insert_passport_version(conn, tenant, status=status) for status in rows.PASSPORT_STATUSES
        }

    removed = set()
    for role, (status, version) in product(ROLES, row_ids.items()):
        async with act_as_role(superuser, role, tenant):
            result = await try_statement(
                superuser, "DELETE FROM passport_versions WHERE passport_version_id = $1", version
            )
        assert result in {"DELETE 1", NO_RIGHT, REFUSED}
        removed |= {(role, status)} if result == "DELETE 1" else set()

    assert removed == {(SYSTEM_ROLE, "SUPERSEDED"), (SYSTEM_ROLE, "REVOKED")}


async def test_the_current_version_of_a_passport_cannot_be_removed(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        passport = await rows.insert_passport(conn, tenant)
        version = await rows.insert_passport_version(conn, tenant, status="REVOKED", passport=passport)
        await conn.execute("UPDATE passports SET current_passport_version_id = $1", version)

    async with act_as_role(superuser, SYSTEM_ROLE, tenant):
        assert await try_statement(superuser, "DELETE FROM passport_versions") == "23503"


async def test_only_the_system_retires_a_signing_key_and_that_is_final(
    database: Database, superuser: Superuser
) -> None:
    await rows.insert_signing_keys(database)
    retirement = f"UPDATE signing_keys SET status = 'RETIRED', retired_at = now() WHERE key_id = '{rows.KEY_ID}'"

    async with act_as_role(superuser, APP_ROLE):
        assert await try_statement(superuser, retirement) == NO_RIGHT
        assert await try_statement(
            superuser, "INSERT INTO signing_keys (key_id, public_key) VALUES ('k', $1)", bytes(32)
        ) == (NO_RIGHT)
    for role in (SYSTEM_ROLE, OWNER_ROLE):
        async with act_as_role(superuser, role):
            assert await superuser.execute(retirement) == "UPDATE 1"
            back = f"UPDATE signing_keys SET status = 'ACTIVE', retired_at = NULL WHERE key_id = '{rows.KEY_ID}'"
            assert await try_statement(superuser, back) == REFUSED
            assert await try_statement(superuser, retirement) == REFUSED


async def test_a_published_version_gets_no_further_fields(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await rows.insert_rule_version(conn, tenant, status="PUBLISHED")

    with pytest.raises(Conflict, match="fields never change"):
        async with database.tenant(tenant) as conn:
            await conn.execute(
                """INSERT INTO rule_fields (tenant_id, rule_field_id, rule_package_version_id, field_path, field_type)
                   VALUES ($1, $2, $3, 'late', 'Text')""",
                tenant,
                clock.new_id(),
                version,
            )


async def test_a_revoked_key_stays_revoked(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        actor = await tenants_and_actors.create_actor(conn, tenant, kind="USER", display_name="Ada", roles=[], act=act)
        issued = await api_keys.create_key(conn, tenant, actor, pepper=b"p" * 16, act=act)
        await api_keys.revoke_key_by_prefix(conn, tenant, issued.api_key.prefix, act=act)

    with pytest.raises(Conflict, match="stays revoked"):
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE api_keys SET revoked_at = NULL WHERE key_prefix = $1", issued.api_key.prefix)
