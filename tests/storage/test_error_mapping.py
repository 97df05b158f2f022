"""Specification of what the database's errors are called: each name in the table is real, and each really happens."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.errors import Conflict, DatabaseUnavailable, Invalid, Refusal
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db import actors, failures
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.failures import REFUSED_BY_TRIGGER, STANDS_FOR, in_our_words, unreachable
from bpc.db.roles import SYSTEM
from tests.db import rows
from tests.db.rows import insert

pytestmark = pytest.mark.external

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Provocation: TypeAlias = Callable[[Connection, TenantId], Awaitable[object]]


async def test_every_name_that_stands_for_a_refusal_is_a_constraint_or_trigger_of_ours(superuser: Superuser) -> None:
    found = await superuser.fetch(
        """SELECT conname AS name FROM pg_constraint WHERE connamespace = 'public'::regnamespace
           UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
           UNION ALL SELECT indexrelid::regclass::text FROM pg_index i
            WHERE indisunique AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)"""
    )
    names = [row["name"] for row in found]

    assert STANDS_FOR.keys() - set(names) == set()
    assert [name for name in STANDS_FOR if names.count(name) > 1] == [], "a name that stands for two things"


# Provocations: for each name, something that the database answers with it ------------------------------------


async def add_to_a_sealed_snapshot(conn: Connection, tenant: TenantId) -> None:
    snapshot = await rows.a_snapshot(conn, tenant, status="SEALED")
    fact = await rows.a_fact(conn, tenant)
    await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)


async def label_a_sealed_snapshot(conn: Connection, tenant: TenantId) -> None:
    await rows.a_snapshot(conn, tenant, status="SEALED")
    await conn.execute("UPDATE data_snapshots SET label = 'other'")


async def seal_what_is_not_ready(conn: Connection, tenant: TenantId) -> None:
    await rows.seal(conn, await rows.a_snapshot(conn, tenant, status="BUILDING"))


async def a_tenant_called(conn: Connection, tenant: TenantId, slug: str) -> None:
    # The tenant that is named already exists; the system role may also insert another.
    await conn.execute(f"SET LOCAL ROLE {SYSTEM}")
    await insert(conn, "tenants", tenant_id=fresh.new_id(), slug=slug, name="Name")


async def a_misshapen_slug(conn: Connection, tenant: TenantId) -> None:
    await a_tenant_called(conn, tenant, "No Slug")


async def a_second_slug(conn: Connection, tenant: TenantId) -> None:
    await a_tenant_called(conn, tenant, "acme")


async def a_second_email(conn: Connection, tenant: TenantId) -> None:
    for _ in range(2):
        await actors.create(
            conn, tenant, kind="USER", display_name="A", roles=[], act=Act(None, fresh.now()), email="a@example.com"
        )


def twice(table: str, key: str, **values: object) -> Provocation:
    async def provoke(conn: Connection, tenant: TenantId) -> None:
        for _ in range(2):
            await insert(conn, table, **{"tenant_id": tenant, key: fresh.new_id()}, **values)

    return provoke


async def the_same_bytes(conn: Connection, tenant: TenantId) -> None:
    await rows.a_document_version(conn, tenant)
    await again(conn, "document_versions", "document_version_id = gen_random_uuid(), version = 2")


async def the_same_sources(conn: Connection, tenant: TenantId) -> None:
    await rows.a_rule_version(conn, tenant)
    await again(conn, "rule_package_versions", "rule_package_version_id = gen_random_uuid(), version = 2")


async def a_second_passport(conn: Connection, tenant: TenantId) -> None:
    await rows.a_passport(conn, tenant)
    await again(conn, "passports", "passport_id = gen_random_uuid()")


async def again(conn: Connection, table: str, but: str) -> None:
    """Insert a copy of the table's only row, with some columns changed."""
    changed = dict(change.split(" = ") for change in but.split(", "))
    names = [
        row["attname"]
        for row in await conn.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0", table
        )
    ]
    values = ", ".join(changed.get(name, name) for name in names)
    await conn.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table}")


PROVOCATIONS: Final[Mapping[str, tuple[Provocation, type[Refusal], str]]] = {
    "snapshot_items_sealed": (add_to_a_sealed_snapshot, failures.SnapshotSealed, "is sealed"),
    "data_snapshots_sealed": (label_a_sealed_snapshot, failures.SnapshotSealed, "the snapshot is sealed"),
    "data_snapshots_ready_first": (seal_what_is_not_ready, failures.SnapshotNotReady, "only a ready snapshot"),
    "tenants_slug_form": (a_misshapen_slug, Invalid, "3 to 64 of a-z, 0-9 and `-`"),
    "tenants_slug_key": (a_second_slug, Conflict, "a tenant with this slug exists already"),
    "actors_email_key": (a_second_email, Conflict, "this e-mail address exists already"),
    "roles_name_key": (twice("roles", "role_id", name="R"), Conflict, "a role with this name"),
    "policies_name_key": (twice("policies", "policy_id", name="P"), Conflict, "a policy with this name"),
    "document_versions_sha256_key": (the_same_bytes, Conflict, "these bytes have been uploaded before"),
    "rule_packages_name_key": (twice("rule_packages", "rule_package_id", name="R"), Conflict, "a rule package with"),
    "rule_package_versions_sources_key": (the_same_sources, Conflict, "a version with these sources"),
    "battery_products_sku_key": (
        twice("battery_products", "battery_product_id", sku="S", name="N"),
        Conflict,
        "a product with this SKU exists already",
    ),
    "passports_product_key": (a_second_passport, Conflict, "this product has a passport already"),
}


async def test_each_of_them_can_be_provoked_and_says_what_it_stands_for(database: Database, tenant: TenantId) -> None:
    assert PROVOCATIONS.keys() == STANDS_FOR.keys()
    for name, (provoke, kind, says) in PROVOCATIONS.items():
        with pytest.raises(Refusal) as refused:
            await provoked(database, tenant, provoke)

        assert type(refused.value) is kind, name
        assert says in refused.value.says, name
        assert getattr(refused.value.__cause__, "constraint_name", None) == name
        assert not refused.value.retryable


async def provoked(database: Database, tenant: TenantId, provoke: Provocation) -> None:
    async with database.tenant(tenant) as conn:
        await provoke(conn, tenant)


async def test_any_other_unique_key_is_a_plain_conflict_that_names_it(database: Database, tenant: TenantId) -> None:
    async def the_same_key(conn: Connection, tenant: TenantId) -> None:
        for _ in range(2):
            await rows.an_idempotency_key(conn, tenant)

    with pytest.raises(Conflict, match="this exists already") as refused:
        await provoked(database, tenant, the_same_key)

    assert refused.value.code == "CONFLICT"
    assert refused.value.details == {"constraint": "idempotency_keys_pkey"}


@pytest.mark.parametrize(
    "values",
    [{"sku": "", "name": "N"}, {"sku": "S"}, {"sku": "S", "name": "N", "battery_product_id": None}],
    ids=["check", "not null", "key not null"],
)
async def test_a_constraint_that_stands_for_nothing_is_a_mistake_of_ours_and_passes_unchanged(
    database: Database, tenant: TenantId, values: dict[str, object]
) -> None:
    async def misuse(conn: Connection, tenant: TenantId) -> None:
        await insert(conn, "battery_products", **({"tenant_id": tenant, "battery_product_id": fresh.new_id()} | values))

    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await provoked(database, tenant, misuse)


async def test_a_row_that_is_not_there_to_point_at_is_a_mistake_of_ours_and_passes_unchanged(
    database: Database, tenant: TenantId
) -> None:
    async def misuse(conn: Connection, tenant: TenantId) -> None:
        await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=fresh.new_id(), fact_id=fresh.new_id())

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await provoked(database, tenant, misuse)


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
def test_what_may_be_over_in_a_moment_is_unavailable_and_can_be_retried(error: type[asyncpg.PostgresError]) -> None:
    refusal = in_our_words(error("what the server said"))

    assert isinstance(refusal, DatabaseUnavailable)
    assert (refusal.code, refusal.retryable) == ("DB_UNAVAILABLE", True)
    assert "what the server said" in refusal.says
    assert refusal.fix


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
def test_what_is_a_mistake_of_ours_has_no_other_name(error: Exception) -> None:
    assert in_our_words(error) is None


def test_an_error_without_a_message_is_called_by_its_kind() -> None:
    assert "ConnectionResetError" in unreachable(ConnectionResetError()).says
    assert "no answer in time" in unreachable(TimeoutError()).says


async def test_every_trigger_that_refuses_is_a_conflict_with_the_triggers_own_sentence(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        await rows.a_fact(conn, tenant)

    with pytest.raises(asyncpg.PostgresError) as said:
        await superuser.execute("DELETE FROM facts")

    refusal = in_our_words(said.value)
    assert said.value.sqlstate == REFUSED_BY_TRIGGER
    assert isinstance(refusal, Conflict)
    assert (refusal.says, refusal.details) == (
        "a fact is never changed or deleted",
        {"constraint": "facts_never_change"},
    )


@pytest.mark.parametrize("error", [asyncpg.DiskFullError, asyncpg.OutOfMemoryError])
def test_a_server_that_has_run_out_of_room_is_unavailable_until_there_is_some(error: type[Exception]) -> None:
    refusal = in_our_words(error("no space left"))

    assert isinstance(refusal, DatabaseUnavailable)
    assert "room" in (refusal.fix or "")
