"""Specification of statuses: each moves only forward, by allowed steps, whoever asks; other columns stay."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

import pytest

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE, Connection
from bpc.storage.database import Database
from tests.storage import evidence_rows, rows
from tests.storage.probes import COLUMNS, NO_RIGHT, REFUSED, ROLES, Superuser, make_other_value
from tests.storage.statements import act_as_role, try_statement

pytestmark = pytest.mark.external

Build: TypeAlias = Callable[[Connection, TenantId, str], Awaitable[object]]
# Of rows with their first status, these columns may change.
STILL_OPEN: Final[Mapping[str, frozenset[str]]] = {
    "document_versions": frozenset({"status"}),
    "data_snapshots": frozenset({"status", "label", "sealed_at", "snapshot_canonical", "snapshot_hash"}),
    "rule_package_versions": frozenset({"status", "published_at"}),
    "passport_versions": frozenset(
        {"status", "signature", "qr_png", "qr_payload", "activated_at", "superseded_at", "revoked_at", "replayed_at"}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusMachine:
    """The statuses of one kind of thing, and the steps that exist between two of them."""

    table: str
    key: str
    statuses: tuple[str, ...]
    steps: frozenset[tuple[str, str]]
    build: Build
    # What has to be set with the new status, given the old and the new one.
    columns_set_with: Callable[[str, str], str] = lambda _old, _new: ""
    final: frozenset[str] = frozenset()  # where not even the same status can be set again


async def build_document(conn: Connection, tenant: TenantId, status: str) -> object:
    return await evidence_rows.insert_document_version(conn, tenant, status=status)


async def build_snapshot(conn: Connection, tenant: TenantId, status: str) -> object:
    return await evidence_rows.insert_snapshot(conn, tenant, status=status)


async def build_rules(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.insert_rule_version(conn, tenant, status=status)


async def build_passport(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.insert_passport_version(conn, tenant, status=status)


SIGN: Final = f", signature = '\\x{rows.SIGNATURE.hex()}', signing_key_id = '{rows.KEY_ID}'"
END_TIMES: Final = {"SUPERSEDED": ", superseded_at = now()", "REVOKED": ", revoked_at = now()"}
SEAL: Final = ", sealed_at = now(), snapshot_canonical = '{}', snapshot_hash = sha256('{}')"


def choose_columns_of_version(old: str, new: str) -> str:
    """What a version gets together with another status."""
    return "" if old == new else (SIGN if old == "COMPILING" else "") + END_TIMES.get(new, "")


STATUS_MACHINES: Final = [
    StatusMachine(
        table="document_versions",
        key="document_version_id",
        statuses=evidence_rows.DOCUMENT_STATUSES,
        steps=frozenset(
            {
                ("UPLOADED", "PARSED"),
                ("UPLOADED", "VALIDATED"),
                ("UPLOADED", "REJECTED"),
                ("PARSED", "VALIDATED"),
                ("PARSED", "REJECTED"),
            }
        ),
        build=build_document,
    ),
    StatusMachine(
        table="data_snapshots",
        key="snapshot_id",
        statuses=evidence_rows.SNAPSHOT_STATUSES,
        steps=frozenset({("BUILDING", "READY"), ("READY", "BUILDING"), ("READY", "SEALED")}),
        build=build_snapshot,
        columns_set_with=lambda old, new: SEAL if new == "SEALED" != old else "",
        final=frozenset({"SEALED"}),
    ),
    StatusMachine(
        table="rule_package_versions",
        key="rule_package_version_id",
        statuses=rows.RULE_STATUSES,
        steps=frozenset(
            {
                ("DRAFT", "VALIDATED"),
                ("VALIDATED", "PUBLISHED"),
                ("PUBLISHED", "DEPRECATED"),
                ("DRAFT", "RETIRED"),
                ("VALIDATED", "RETIRED"),
                ("PUBLISHED", "RETIRED"),
                ("DEPRECATED", "RETIRED"),
            }
        ),
        build=build_rules,
    ),
    StatusMachine(
        table="passport_versions",
        key="passport_version_id",
        statuses=rows.PASSPORT_STATUSES,
        steps=frozenset(
            {
                ("COMPILING", "SIGNED"),
                ("SIGNED", "ACTIVE"),
                ("SIGNED", "REVOKED"),
                ("ACTIVE", "SUPERSEDED"),
                ("ACTIVE", "REVOKED"),
                ("SUPERSEDED", "REVOKED"),
            }
        ),
        build=build_passport,
        columns_set_with=choose_columns_of_version,
    ),
]
TABLES: Final = [machine.table for machine in STATUS_MACHINES]


@pytest.mark.parametrize("machine", STATUS_MACHINES, ids=TABLES)
async def test_a_status_takes_only_allowed_steps_for_every_role(
    database: Database, superuser: Superuser, tenant: TenantId, machine: StatusMachine
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        row_ids = {status: await machine.build(conn, tenant, status) for status in machine.statuses}

    for role in ROLES:
        taken = set()
        async with act_as_role(superuser, role, tenant):
            for old, new in product(machine.statuses, machine.statuses):
                columns = f"status = '{new}'{machine.columns_set_with(old, new)}"
                step = f"UPDATE {machine.table} SET {columns} WHERE {machine.key} = $1"
                result = await try_statement(superuser, step, row_ids[old])
                assert result in {"UPDATE 1", REFUSED}, (role, old, new)
                taken |= {(old, new)} if result == "UPDATE 1" else set()

        stays = {(status, status) for status in machine.statuses if status not in machine.final}
        assert taken == machine.steps | stays, role


@pytest.mark.parametrize("machine", STATUS_MACHINES, ids=TABLES)
async def test_columns_not_listed_as_changeable_never_change(
    database: Database, superuser: Superuser, tenant: TenantId, machine: StatusMachine
) -> None:
    async with database.tenant(tenant) as conn:
        await machine.build(conn, tenant, machine.statuses[0])
    columns = await superuser.fetch(COLUMNS, machine.table)

    for role, expected in (
        (APP_ROLE, {NO_RIGHT, REFUSED}),
        (SYSTEM_ROLE, {NO_RIGHT, REFUSED}),
        (OWNER_ROLE, {REFUSED}),
    ):
        async with act_as_role(superuser, role, tenant):
            for column in columns:
                if column["name"] not in STILL_OPEN[machine.table]:
                    statement = f"UPDATE {machine.table} SET {column['name']} = {make_other_value(column)}"
                    assert await try_statement(superuser, statement) in expected, (role, statement)
