"""Specification of what the database's errors are called: each name in the table is real, and each really happens."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import asyncpg
import pytest

from bpc.cli.support.output import find_fix
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, DatabaseUnavailable, Invalid, Refusal
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage import error_mapping
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import SYSTEM_ROLE, Connection
from bpc.storage.database import Database
from bpc.storage.error_mapping import (
    REFUSAL_BY_CONSTRAINT,
    TRIGGER_SQLSTATE,
    UNIQUE_CONSTRAINTS,
    map_connection_error,
    map_driver_error,
)
from tests.storage import evidence_rows, rows
from tests.storage.access_and_job_rows import insert_idempotency_key
from tests.storage.probes import Superuser
from tests.storage.statements import insert_row

pytestmark = pytest.mark.external
Provocation: TypeAlias = Callable[[Connection, TenantId], Awaitable[object]]

MAPPED_NAMES = REFUSAL_BY_CONSTRAINT.keys() | UNIQUE_CONSTRAINTS.keys()


async def test_every_mapped_name_is_a_constraint_or_trigger_of_the_schema(superuser: Superuser) -> None:
    catalog_rows = await superuser.fetch(
        """SELECT conname AS name FROM pg_constraint WHERE connamespace = 'public'::regnamespace
           UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
           UNION ALL SELECT indexrelid::regclass::text FROM pg_index i
            WHERE indisunique AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)"""
    )
    names = [row["name"] for row in catalog_rows]

    assert MAPPED_NAMES - set(names) == set()
    assert [name for name in MAPPED_NAMES if names.count(name) > 1] == [], "a name that stands for two things"


# Provocations: for each name, something that the database answers with it ------------------------------------


async def add_to_a_sealed_snapshot(conn: Connection, tenant: TenantId) -> None:
    snapshot = await evidence_rows.insert_snapshot(conn, tenant, status="SEALED")
    fact = await evidence_rows.insert_fact(conn, tenant)
    await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)


async def label_a_sealed_snapshot(conn: Connection, tenant: TenantId) -> None:
    await evidence_rows.insert_snapshot(conn, tenant, status="SEALED")
    await conn.execute("UPDATE data_snapshots SET label = 'other'")


async def seal_building_snapshot(conn: Connection, tenant: TenantId) -> None:
    await evidence_rows.seal_snapshot(conn, await evidence_rows.insert_snapshot(conn, tenant, status="BUILDING"))


async def insert_tenant(conn: Connection, tenant: TenantId, slug: str) -> None:
    # The tenant that is named already exists; the system role may also insert another.
    await conn.execute(f"SET LOCAL ROLE {SYSTEM_ROLE}")
    await insert_row(conn, "tenants", tenant_id=clock.new_id(), slug=slug, name="Name")


async def insert_invalid_slug(conn: Connection, tenant: TenantId) -> None:
    await insert_tenant(conn, tenant, "No Slug")


async def insert_same_slug(conn: Connection, tenant: TenantId) -> None:
    await insert_tenant(conn, tenant, "acme")


async def insert_same_email(conn: Connection, tenant: TenantId) -> None:
    for _ in range(2):
        await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name="A", roles=[], act=Act(None, clock.now()), email="a@example.com"
        )


def insert_twice(table: str, key: str, **values: object) -> Provocation:
    async def provoke(conn: Connection, tenant: TenantId) -> None:
        for _ in range(2):
            await insert_row(conn, table, **{"tenant_id": tenant, key: clock.new_id()}, **values)

    return provoke


async def insert_same_bytes(conn: Connection, tenant: TenantId) -> None:
    await evidence_rows.insert_document_version(conn, tenant)
    await insert_copy(conn, "document_versions", "document_version_id = gen_random_uuid(), version = 2")


async def insert_same_sources(conn: Connection, tenant: TenantId) -> None:
    await rows.insert_rule_version(conn, tenant)
    await insert_copy(conn, "rule_package_versions", "rule_package_version_id = gen_random_uuid(), version = 2")


async def insert_second_passport(conn: Connection, tenant: TenantId) -> None:
    await rows.insert_passport(conn, tenant)
    await insert_copy(conn, "passports", "passport_id = gen_random_uuid()")


async def insert_copy(conn: Connection, table: str, changes: str) -> None:
    """Insert a copy of the table's only row, with some columns changed."""
    changed = dict(change.split(" = ") for change in changes.split(", "))
    names = [
        row["attname"]
        for row in await conn.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0", table
        )
    ]
    values = ", ".join(changed.get(name, name) for name in names)
    await conn.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table}")


PROVOCATIONS: Final[Mapping[str, tuple[Provocation, type[Refusal], str]]] = {
    "snapshot_items_sealed": (add_to_a_sealed_snapshot, error_mapping.SnapshotAlreadySealed, "is sealed"),
    "data_snapshots_sealed": (label_a_sealed_snapshot, error_mapping.SnapshotAlreadySealed, "the snapshot is sealed"),
    "data_snapshots_ready_first": (seal_building_snapshot, error_mapping.SnapshotNotReady, "only a ready snapshot"),
    "tenants_slug_form": (insert_invalid_slug, Invalid, "3 to 64 of a-z, 0-9 and `-`"),
    "tenants_slug_key": (insert_same_slug, Conflict, "a tenant with this slug already exists"),
    "actors_email_key": (insert_same_email, Conflict, "this e-mail address already exists"),
    "roles_name_key": (insert_twice("roles", "role_id", name="R"), Conflict, "a role with this name"),
    "policies_name_key": (insert_twice("policies", "policy_id", name="P"), Conflict, "a policy with this name"),
    "document_versions_sha256_key": (insert_same_bytes, Conflict, "this file has already been uploaded"),
    "rule_packages_name_key": (
        insert_twice("rule_packages", "rule_package_id", name="R"),
        Conflict,
        "a rule package with",
    ),
    "rule_package_versions_sources_key": (insert_same_sources, Conflict, "a version with these sources"),
    "battery_products_sku_key": (
        insert_twice("battery_products", "battery_product_id", sku="S", name="N"),
        Conflict,
        "a product with this SKU already exists",
    ),
    "passports_product_key": (insert_second_passport, Conflict, "this product already has a passport"),
}


async def test_each_mapped_constraint_can_be_violated_and_gives_its_refusal(
    database: Database, tenant: TenantId
) -> None:
    assert PROVOCATIONS.keys() == MAPPED_NAMES
    for name, (provoke, kind, says) in PROVOCATIONS.items():
        with pytest.raises(Refusal) as refused:
            await run_provocation(database, tenant, provoke)

        assert type(refused.value) is kind, name
        assert says in refused.value.says, name
        assert getattr(refused.value.__cause__, "constraint_name", None) == name
        assert not refused.value.retryable


async def run_provocation(database: Database, tenant: TenantId, provoke: Provocation) -> None:
    async with database.tenant(tenant) as conn:
        await provoke(conn, tenant)


async def test_any_other_unique_key_is_a_plain_conflict_that_names_it(database: Database, tenant: TenantId) -> None:
    async def insert_same_key(conn: Connection, tenant: TenantId) -> None:
        for _ in range(2):
            await insert_idempotency_key(conn, tenant)

    with pytest.raises(Conflict, match="this already exists") as refused:
        await run_provocation(database, tenant, insert_same_key)

    assert refused.value.code == "CONFLICT"
    assert refused.value.details == {"constraint": "idempotency_keys_pkey"}


@pytest.mark.parametrize(
    "values",
    [{"sku": "", "name": "N"}, {"sku": "S"}, {"sku": "S", "name": "N", "battery_product_id": None}],
    ids=["check", "not null", "key not null"],
)
async def test_an_unmapped_constraint_error_is_raised_unchanged(
    database: Database, tenant: TenantId, values: dict[str, object]
) -> None:
    async def misuse(conn: Connection, tenant: TenantId) -> None:
        await insert_row(
            conn, "battery_products", **({"tenant_id": tenant, "battery_product_id": clock.new_id()} | values)
        )

    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await run_provocation(database, tenant, misuse)


async def test_a_foreign_key_error_is_raised_unchanged(database: Database, tenant: TenantId) -> None:
    async def misuse(conn: Connection, tenant: TenantId) -> None:
        await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=clock.new_id(), fact_id=clock.new_id())

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await run_provocation(database, tenant, misuse)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError,
        asyncpg.ConnectionFailureError,
        asyncpg.CannotConnectNowError,
        asyncpg.TooManyConnectionsError,
        asyncpg.AdminShutdownError,
        asyncpg.CrashShutdownError,
        asyncpg.IdleInTransactionSessionTimeoutError,
        asyncpg.SerializationError,
        asyncpg.DeadlockDetectedError,
        asyncpg.LockNotAvailableError,
        asyncpg.QueryCanceledError,
        asyncpg.InvalidPasswordError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
    ],
)
def test_a_temporary_error_is_unavailable_and_can_be_retried(error: type[asyncpg.PostgresError]) -> None:
    refusal = map_driver_error(error("what the server said"))

    assert isinstance(refusal, DatabaseUnavailable)
    assert (refusal.code, refusal.retryable) == ("DB_UNAVAILABLE", True)
    assert "what the server said" in refusal.says
    assert find_fix(refusal)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("not the database's"),
        asyncpg.InterfaceError("wrong use of the driver"),
        asyncpg.UndefinedTableError("no such table"),
        asyncpg.InsufficientPrivilegeError("no right"),
        asyncpg.CheckViolationError("a check"),
        asyncpg.DataError("wrong argument"),
    ],
)
def test_an_error_that_is_a_bug_is_not_mapped(error: Exception) -> None:
    assert map_driver_error(error) is None


def test_an_error_without_a_message_is_named_by_its_class() -> None:
    assert "ConnectionResetError" in map_connection_error(ConnectionResetError()).says
    assert "no answer in time" in map_connection_error(TimeoutError()).says


async def test_every_error_of_a_trigger_is_a_conflict_with_the_message_of_the_trigger(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        await evidence_rows.insert_fact(conn, tenant)

    with pytest.raises(asyncpg.PostgresError) as raised:
        await superuser.execute("DELETE FROM facts")

    refusal = map_driver_error(raised.value)
    assert raised.value.sqlstate == TRIGGER_SQLSTATE
    assert isinstance(refusal, Conflict)
    assert (refusal.says, refusal.details) == (
        "a fact is never changed or deleted",
        {"constraint": "facts_never_change"},
    )


@pytest.mark.parametrize("error", [asyncpg.DiskFullError, asyncpg.OutOfMemoryError])
def test_a_server_without_disk_space_is_unavailable(error: type[Exception]) -> None:
    refusal = map_driver_error(error("no space left"))

    assert isinstance(refusal, DatabaseUnavailable)
    assert "room" in (refusal.fix or "")
