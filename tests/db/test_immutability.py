"""Specification of what never changes: the database refuses it to the application, the system and the tables' owner.

What may change is listed here, each with the test that it does: a status forward, time stamps and other columns
once, and what retention removes. Columns come from the catalog, so one that is added later is frozen or listed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.errors import Conflict
from bpc.core.events import Act
from bpc.core.ids import SnapshotId, TenantId
from bpc.db import actors, apikeys
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.failures import SnapshotSealed
from bpc.db.roles import APP, OWNER, SYSTEM
from tests.db import rows
from tests.db.rows import acting, insert, outcome

pytestmark = pytest.mark.external

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NO_RIGHT: Final = "42501"  # insufficient_privilege
REFUSED: Final = "BP001"  # by a trigger of ours
CHECK: Final = "23514"  # check_violation
ROLES: Final = (APP, SYSTEM, OWNER)

PROTECTED: Final = (
    "events",
    "event_anchors",
    "retention_anchors",
    "document_versions",
    "document_texts",
    "facts",
    "fact_sources",
    "data_snapshots",
    "snapshot_items",
    "rule_package_versions",
    "rule_fields",
    "rule_tests_runs",
    "passport_versions",
    "compile_runs",
    "compile_run_rows",
    "policy_versions",
    "signing_keys",
)
# Of rows that have come to the end of their way, nothing can be updated but this.
STILL_CHANGES: Final = {
    ("policy_versions", "is_active"): "a policy is put in force and out of it",
    ("passport_versions", "replayed_at"): "a version may be replayed at any time",
}
# Of rows at the beginning of theirs, these columns are still open; the tests below say to what.
STILL_OPEN: Final[Mapping[str, frozenset[str]]] = {
    "document_versions": frozenset({"status"}),
    "data_snapshots": frozenset({"status", "label", "sealed_at", "snapshot_canonical", "snapshot_hash"}),
    "rule_package_versions": frozenset({"status", "published_at"}),
    "passport_versions": frozenset(
        {"status", "signature", "qr_png", "qr_payload", "activated_at", "superseded_at", "revoked_at", "replayed_at"}
    ),
}
# And nothing can be deleted but this, by the one role that runs retention.
# Of events what lies behind an anchor, see test_events.py.
RETENTION_DELETES: Final = {(SYSTEM, table) for table in ("passport_versions", "document_texts")}
# What is deactivated or retired, never deleted.
KEPT: Final = ("tenants", "actors", "documents", "battery_products", "rule_packages", "passports", "api_keys")

COLUMNS: Final = """
    SELECT a.attname::text AS name, t.typname AS type, t.typtype = 'e' AS is_enum
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
     WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
GUARDED: Final = r"SELECT tgrelid::regclass::text AS name FROM pg_trigger WHERE tgname LIKE '%\_not\_truncated'"
ANOTHER: Final[Mapping[str, str]] = {
    "uuid": "gen_random_uuid()",
    "text": "coalesce({0}, '') || 'x'",
    "_text": "{0} || 'x'::text",
    "int4": "{0} + 1",
    "int8": "{0} + 1",
    "bool": "NOT {0}",
    "jsonb": """'{{"another": "value"}}'""",
    "bytea": r"coalesce({0}, '') || '\x00'",
    "hash256": "sha256(coalesce({0}, ''))",
    "timestamptz": "coalesce({0}, now()) + interval '1 second'",
}


def another_value(column: asyncpg.Record) -> str:
    """An expression of the column's type that is never the value it has."""
    if column["is_enum"]:
        return "CASE WHEN {0} = enum_first({0}) THEN enum_last({0}) ELSE enum_first({0}) END".format(column["name"])
    return ANOTHER[column["type"]].format(column["name"])


@pytest.fixture
async def at_the_end(database: Database, tenant: TenantId, act: Act) -> None:
    """A row in every protected table that has gone all its way."""
    await rows.signing_keys(database)
    async with database.system(tenant) as conn:
        await rows.a_snapshot(conn, tenant, status="SEALED", fact=await rows.a_fact(conn, tenant))
        await rows.a_rule_version(conn, tenant, status="RETIRED")
        await rows.a_compile_run(conn, tenant, await rows.a_rule_version(conn, tenant))
        await rows.a_policy_version(conn, tenant)
        await rows.an_anchor(conn, tenant, act)
        await rows.a_document_text(conn, tenant)
        await rows.a_passport_version(
            conn, tenant, status="REVOKED", qr_png=b"png", qr_payload="{}", activated_at=act.at, superseded_at=act.at
        )
        await conn.execute("UPDATE signing_keys SET status = 'RETIRED', retired_at = now()")


@pytest.mark.usefixtures("at_the_end")
async def test_no_column_of_a_finished_row_can_be_changed_by_anybody(superuser: Superuser, tenant: TenantId) -> None:
    columns = [(table, column) for table in PROTECTED for column in await superuser.fetch(COLUMNS, table)]

    for role in ROLES:
        async with acting(superuser, role, tenant):
            for table, column in columns:
                made_of = f"UPDATE {table} SET {column['name']} = {another_value(column)}"
                said = await outcome(superuser, made_of)

                if (table, column["name"]) in STILL_CHANGES:
                    assert said == "UPDATE 1", (role, made_of)
                elif role == OWNER:  # who lacks no right: it is the trigger that refuses
                    assert said == REFUSED, (role, made_of)
                else:
                    assert said in {NO_RIGHT, REFUSED}, (role, made_of)


@pytest.mark.usefixtures("at_the_end")
async def test_no_finished_row_can_be_deleted_but_by_retention_and_no_table_emptied(
    superuser: Superuser, tenant: TenantId
) -> None:
    guarded = await superuser.fetch(GUARDED)
    assert {row["name"] for row in guarded} == set(PROTECTED), "a table is guarded and not tested, or the reverse"
    for role, table in product(ROLES, PROTECTED):
        async with acting(superuser, role, tenant):
            deleted = await outcome(superuser, f"DELETE FROM {table}")
            emptied = await outcome(superuser, f"TRUNCATE {table} CASCADE")

            if (role, table) in RETENTION_DELETES:
                count = await superuser.fetchval(f"SELECT count(*) FROM {table}")
                assert deleted == f"DELETE {count}" != "DELETE 0", (role, table)
            else:
                assert deleted in ({REFUSED} if role == OWNER else {NO_RIGHT, REFUSED}), (role, table)
            assert emptied == (REFUSED if role == OWNER else NO_RIGHT), (role, table)
    async with acting(superuser, OWNER, tenant):
        assert await outcome(superuser, "TRUNCATE tenants CASCADE") == REFUSED


@pytest.mark.usefixtures("at_the_end")
async def test_what_is_deactivated_is_not_deleted_and_keeps_its_identity(
    superuser: Superuser, tenant: TenantId
) -> None:
    for role, table in product((APP, SYSTEM), KEPT):
        async with acting(superuser, role, tenant):
            assert await outcome(superuser, f"DELETE FROM {table}") == NO_RIGHT, (role, table)
            assert await outcome(superuser, f"TRUNCATE {table} CASCADE") == NO_RIGHT, (role, table)
            for column in await superuser.fetch(COLUMNS, table):
                if column["name"] in {"tenant_id", "created_at"} or column["name"] == f"{table[:-1]}_id":
                    made_of = f"UPDATE {table} SET {column['name']} = {another_value(column)}"
                    assert await outcome(superuser, made_of) == NO_RIGHT, (role, made_of)


Build: TypeAlias = Callable[[Connection, TenantId, str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The statuses of one kind of thing, and the steps that exist between two of them."""

    table: str
    key: str
    statuses: tuple[str, ...]
    steps: frozenset[tuple[str, str]]
    build: Build
    # What has to be set with the new status, given the old and the new one.
    along: Callable[[str, str], str] = lambda _old, _new: ""
    final: frozenset[str] = frozenset()  # where not even the same status can be set again


async def a_document(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.a_document_version(conn, tenant, status=status)


async def a_snapshot(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.a_snapshot(conn, tenant, status=status)


async def some_rules(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.a_rule_version(conn, tenant, status=status)


async def a_passport(conn: Connection, tenant: TenantId, status: str) -> object:
    return await rows.a_passport_version(conn, tenant, status=status)


SIGN: Final = f", signature = '\\x{rows.SIGNATURE.hex()}', signing_key_id = '{rows.KEY_ID}'"
SEAL: Final = ", sealed_at = now(), snapshot_canonical = '{}', snapshot_hash = sha256('{}')"
WAYS: Final = [
    Way(
        table="document_versions",
        key="document_version_id",
        statuses=rows.DOCUMENT_STATUSES,
        steps=frozenset(
            {
                ("UPLOADED", "PARSED"),
                ("UPLOADED", "VALIDATED"),
                ("UPLOADED", "REJECTED"),
                ("PARSED", "VALIDATED"),
                ("PARSED", "REJECTED"),
            }
        ),
        build=a_document,
    ),
    Way(
        table="data_snapshots",
        key="snapshot_id",
        statuses=rows.SNAPSHOT_STATUSES,
        steps=frozenset({("BUILDING", "READY"), ("READY", "BUILDING"), ("READY", "SEALED")}),
        build=a_snapshot,
        along=lambda old, new: SEAL if new == "SEALED" != old else "",
        final=frozenset({"SEALED"}),
    ),
    Way(
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
        build=some_rules,
    ),
    Way(
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
        build=a_passport,
        along=lambda old, new: SIGN if old == "COMPILING" != new else "",
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=[way.table for way in WAYS])
async def test_a_status_takes_the_steps_that_exist_and_no_others_whoever_asks(
    database: Database, superuser: Superuser, tenant: TenantId, way: Way
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        built = {status: await way.build(conn, tenant, status) for status in way.statuses}

    for role in ROLES:
        taken = set()
        async with acting(superuser, role, tenant):
            for old, new in product(way.statuses, way.statuses):
                step = f"UPDATE {way.table} SET status = '{new}'{way.along(old, new)} WHERE {way.key} = $1"
                said = await outcome(superuser, step, built[old])
                assert said in {"UPDATE 1", REFUSED}, (role, old, new)
                taken |= {(old, new)} if said == "UPDATE 1" else set()

        stays = {(status, status) for status in way.statuses if status not in way.final}
        assert taken == way.steps | stays, role


@pytest.mark.parametrize("way", WAYS, ids=[way.table for way in WAYS])
async def test_what_is_not_open_at_the_beginning_is_frozen_from_the_beginning(
    database: Database, superuser: Superuser, tenant: TenantId, way: Way
) -> None:
    async with database.tenant(tenant) as conn:
        await way.build(conn, tenant, way.statuses[0])
    columns = await superuser.fetch(COLUMNS, way.table)

    for role, said_to_it in ((APP, {NO_RIGHT, REFUSED}), (SYSTEM, {NO_RIGHT, REFUSED}), (OWNER, {REFUSED})):
        async with acting(superuser, role, tenant):
            for column in columns:
                if column["name"] not in STILL_OPEN[way.table]:
                    made_of = f"UPDATE {way.table} SET {column['name']} = {another_value(column)}"
                    assert await outcome(superuser, made_of) in said_to_it, (role, made_of)


async def test_a_passport_version_is_signed_once_and_all_at_once(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        open_key = await rows.a_passport_version(conn, tenant)
        fixed_key = await rows.a_passport_version(conn, tenant, signing_key_id=rows.KEY_ID)

    def setting(what: str) -> str:
        return f"UPDATE passport_versions SET {what} WHERE passport_version_id = $1"

    signature = f"signature = '\\x{rows.SIGNATURE.hex()}'"
    receipt = "receipt_canonical = '\\x7b7d'"
    ours, another = (f"signing_key_id = '{key}'" for key in (rows.KEY_ID, rows.OTHER_KEY_ID))
    whole = f"status = 'SIGNED', {signature}, {receipt}"
    for role in ROLES:
        async with acting(superuser, role, tenant):
            assert await outcome(superuser, setting(receipt), open_key) == REFUSED
            assert await outcome(superuser, setting(ours), open_key) == REFUSED
            assert await outcome(superuser, setting(signature), open_key) == CHECK, "signed but not SIGNED"
            assert await outcome(superuser, setting("status = 'SIGNED'"), open_key) == CHECK, "SIGNED but not signed"
            assert await outcome(superuser, setting(whole), open_key) == CHECK, "by no key"
            assert await outcome(superuser, setting(f"{whole}, {another}"), fixed_key) == REFUSED
            assert await outcome(superuser, setting(f"{whole}, {ours}"), fixed_key) == "UPDATE 1"

            assert await superuser.execute(setting(f"{whole}, {ours}"), open_key) == "UPDATE 1"
            for again in (signature, receipt, ours, another, f"{whole}, {ours}", "signature = NULL"):
                assert await outcome(superuser, setting(again), open_key) == REFUSED, again


TIMES: Final = ("activated_at", "superseded_at", "revoked_at")


async def test_qr_code_and_time_stamps_are_written_once(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        passport = await rows.a_passport_version(conn, tenant, status="SIGNED")
        rules = await rows.a_rule_version(conn, tenant, status="VALIDATED")
    columns = [
        *(("passport_versions", "passport_version_id", passport, name, "now()") for name in TIMES),
        ("passport_versions", "passport_version_id", passport, "qr_png", "'\\x01'::bytea"),
        ("passport_versions", "passport_version_id", passport, "qr_payload", "'{}'"),
        ("rule_package_versions", "rule_package_version_id", rules, "published_at", "now()"),
    ]

    for role, (table, key, row, column, value) in product(ROLES, columns):
        async with acting(superuser, role, tenant):
            change = f"UPDATE {table} SET {column} = %s WHERE {key} = $1"
            assert await superuser.execute(change % value, row) == "UPDATE 1", (role, column)

            other = "'other'" if column.startswith("qr") else "now() + interval '1 second'"
            assert await outcome(superuser, change % other, row) == REFUSED, (role, column)
            assert await outcome(superuser, change % "NULL", row) == REFUSED, (role, column)


async def test_only_retention_removes_a_documents_content_and_nothing_brings_another(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        await rows.a_document_version(conn, tenant, status="VALIDATED")
    removal = "UPDATE document_versions SET content = NULL, content_removed_at = now()"

    for role, said in ((APP, NO_RIGHT), (OWNER, REFUSED)):
        async with acting(superuser, role, tenant):
            assert await outcome(superuser, removal) == said
    async with acting(superuser, SYSTEM, tenant):
        assert await outcome(superuser, "UPDATE document_versions SET content = NULL") == CHECK, "without saying when"
        assert await superuser.execute(removal) == "UPDATE 1"
        for again in (
            removal,
            "UPDATE document_versions SET content_removed_at = now() + interval '1 day'",
            "UPDATE document_versions SET content = 'other', content_removed_at = NULL",
        ):
            assert await outcome(superuser, again) == REFUSED, again
        assert await superuser.fetchval("SELECT count(sha256) FROM document_versions WHERE status = 'VALIDATED'") == 1


async def test_only_retention_removes_passport_versions_and_only_superseded_and_revoked_ones(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        built = {
            status: await rows.a_passport_version(conn, tenant, status=status) for status in rows.PASSPORT_STATUSES
        }

    removed = set()
    for role, (status, version) in product(ROLES, built.items()):
        async with acting(superuser, role, tenant):
            said = await outcome(superuser, "DELETE FROM passport_versions WHERE passport_version_id = $1", version)
        assert said in {"DELETE 1", NO_RIGHT, REFUSED}
        removed |= {(role, status)} if said == "DELETE 1" else set()

    assert removed == {(SYSTEM, "SUPERSEDED"), (SYSTEM, "REVOKED")}


async def test_the_version_a_passport_shows_cannot_be_removed_under_it(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        passport = await rows.a_passport(conn, tenant)
        version = await rows.a_passport_version(conn, tenant, status="REVOKED", passport=passport)
        await conn.execute("UPDATE passports SET current_passport_version_id = $1", version)

    async with acting(superuser, SYSTEM, tenant):
        assert await outcome(superuser, "DELETE FROM passport_versions") == "23503"


async def test_a_signing_key_is_retired_by_the_system_once_and_for_all(
    database: Database, superuser: Superuser
) -> None:
    await rows.signing_keys(database)
    retirement = f"UPDATE signing_keys SET status = 'RETIRED', retired_at = now() WHERE key_id = '{rows.KEY_ID}'"

    async with acting(superuser, APP):
        assert await outcome(superuser, retirement) == NO_RIGHT
        assert await outcome(
            superuser, "INSERT INTO signing_keys (key_id, public_key) VALUES ('k', $1)", bytes(32)
        ) == (NO_RIGHT)
    for role in (SYSTEM, OWNER):
        async with acting(superuser, role):
            assert await superuser.execute(retirement) == "UPDATE 1"
            back = f"UPDATE signing_keys SET status = 'ACTIVE', retired_at = NULL WHERE key_id = '{rows.KEY_ID}'"
            assert await outcome(superuser, back) == REFUSED
            assert await outcome(superuser, retirement) == REFUSED


async def test_an_open_snapshot_takes_and_gives_up_items_and_a_sealed_one_neither(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    add = "INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)"
    remove = "DELETE FROM snapshot_items WHERE snapshot_id = $1"
    async with database.tenant(tenant) as conn:
        inside, outside = await rows.a_fact(conn, tenant), await rows.a_fact(conn, tenant)
        built = {
            status: await rows.a_snapshot(conn, tenant, status=status, fact=inside) for status in rows.SNAPSHOT_STATUSES
        }

    for role, (status, snapshot) in product(ROLES, built.items()):
        async with acting(superuser, role, tenant):
            said = [
                await outcome(superuser, add, tenant, snapshot, outside),
                await outcome(superuser, remove, snapshot),
            ]
            moved = await outcome(superuser, "UPDATE snapshot_items SET snapshot_id = $1", snapshot)
        assert said == ([REFUSED, REFUSED] if status == "SEALED" else ["INSERT 0 1", "DELETE 1"]), (role, status)
        assert moved in {NO_RIGHT, REFUSED}


async def test_a_temporary_table_does_not_make_a_sealed_snapshot_look_open(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        fact, snapshot = await rows.a_fact(conn, tenant), await rows.a_snapshot(conn, tenant, status="SEALED")

    async with acting(superuser, APP, tenant):
        await superuser.execute("CREATE TEMPORARY TABLE data_snapshots AS SELECT * FROM data_snapshots")
        await superuser.execute("UPDATE data_snapshots SET status = 'BUILDING'")
        added = await outcome(
            superuser, "INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)",
            tenant, snapshot, fact,
        )  # fmt: skip

    assert added == REFUSED


async def test_a_temporary_type_does_not_turn_the_guard_of_a_sealed_snapshot_to_another_row(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        fact, snapshot = await rows.a_fact(conn, tenant), await rows.a_snapshot(conn, tenant, status="SEALED")

    async with acting(superuser, APP, tenant):
        await superuser.execute(
            "CREATE TEMPORARY TABLE snapshot_items (tenant_id uuid, fact_id uuid, snapshot_id uuid)"
        )
        added = await outcome(
            superuser, "INSERT INTO public.snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)",
            tenant, snapshot, fact,
        )  # fmt: skip

    assert added == REFUSED


@pytest.fixture
async def ready(database: Database, tenant: TenantId) -> tuple[SnapshotId, object]:
    """A snapshot that can be sealed, and a fact that is not in it."""
    async with database.tenant(tenant) as conn:
        return await rows.a_snapshot(conn, tenant, status="READY"), await rows.a_fact(conn, tenant)


async def until_blocked(superuser: Connection, pid: int) -> None:
    """Return when the backend `pid` waits for another's lock."""
    while not await superuser.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
        await asyncio.sleep(0.002)


async def backend(conn: Connection) -> int:
    return int(await conn.fetchval("SELECT pg_backend_pid()"))


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "not sealed after all"])
async def test_an_item_that_comes_while_a_snapshot_is_being_sealed_waits_and_stays_out_if_it_is(
    database: Database, superuser: Superuser, tenant: TenantId, ready: tuple[SnapshotId, object], is_sealed: bool
) -> None:
    snapshot, fact = ready
    started = asyncio.get_running_loop().create_future()

    async def add_item() -> None:
        async with database.tenant(tenant) as conn:
            started.set_result(await backend(conn))
            await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)

    class ChangedMyMind(Exception):
        pass

    adding: list[asyncio.Task[None]] = []

    async def seal() -> None:
        async with database.tenant(tenant) as conn:
            await rows.seal(conn, snapshot)
            adding.append(asyncio.create_task(add_item()))
            await asyncio.wait_for(until_blocked(superuser, await started), 60)
            if not is_sealed:
                raise ChangedMyMind

    with nullcontext() if is_sealed else pytest.raises(ChangedMyMind):
        await seal()
    (said,) = await asyncio.gather(*adding, return_exceptions=True)

    count = await superuser.fetchval("SELECT count(*) FROM snapshot_items WHERE snapshot_id = $1", snapshot)
    if is_sealed:
        assert isinstance(said, SnapshotSealed)
        assert count == 0
    else:
        assert said is None
        assert count == 1


async def test_a_seal_waits_for_items_that_are_on_their_way_and_contains_them(
    database: Database, superuser: Superuser, tenant: TenantId, ready: tuple[SnapshotId, object]
) -> None:
    snapshot, fact = ready
    started = asyncio.get_running_loop().create_future()

    async def seal() -> None:
        async with database.tenant(tenant) as conn:
            started.set_result(await backend(conn))
            await rows.seal(conn, snapshot)

    async with database.tenant(tenant) as conn:
        await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)
        sealing = asyncio.create_task(seal())
        await asyncio.wait_for(until_blocked(superuser, await started), 60)
    await sealing

    sealed = await superuser.fetchval("SELECT snapshot_canonical FROM data_snapshots WHERE snapshot_id = $1", snapshot)
    assert str(fact).encode() in sealed, "the fact's key is its id"


async def test_a_refusal_reaches_the_caller_as_a_conflict_that_says_why(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await rows.a_document_version(conn, tenant, status="REJECTED")

    with pytest.raises(Conflict, match="a document version's status only moves forward") as refused:
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE document_versions SET status = 'UPLOADED'")

    assert refused.value.details == {"constraint": "document_versions_status_forward"}
    assert not refused.value.retryable


async def test_a_published_version_gets_no_further_fields(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await rows.a_rule_version(conn, tenant, status="PUBLISHED")

    with pytest.raises(Conflict, match="fields never change"):
        async with database.tenant(tenant) as conn:
            await conn.execute(
                """INSERT INTO rule_fields (tenant_id, rule_field_id, rule_package_version_id, field_path, field_type)
                   VALUES ($1, $2, $3, 'late', 'Text')""",
                tenant,
                fresh.new_id(),
                version,
            )


async def test_a_revoked_key_stays_revoked(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        actor = await actors.create(conn, tenant, kind="USER", display_name="Ada", roles=[], act=act)
        issued = await apikeys.create(conn, tenant, actor, pepper=b"p" * 16, act=act)
        await apikeys.revoke(conn, tenant, issued.api_key.prefix, act=act)

    with pytest.raises(Conflict, match="stays revoked"):
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE api_keys SET revoked_at = NULL WHERE key_prefix = $1", issued.api_key.prefix)
