"""Specification of the event store: what is appended stays, in order, and every change to it shows."""

import asyncpg
import pytest

from bpc.core.audit.events import EMPTY_CHAIN, Act, ChainHead, EventStream, EventVersionConflict
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.storage.rows import cut_chain

pytestmark = pytest.mark.external


def make_stream(tenant: TenantId) -> EventStream:
    return EventStream(tenant, "Document", AggregateId(clock.new_id()))


async def append_events(database: Database, stream: EventStream, act: Act, count: int) -> None:
    async with database.tenant(stream.tenant_id) as conn:
        for number in range(count):
            await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {"number": number, "note": "Gehäuse"}))


async def test_events_of_an_aggregate_are_numbered_from_one_and_linked(
    database: Database, tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)

    await append_events(database, stream, act, 3)

    async with database.tenant(tenant) as conn:
        chain = [row.event for row in await events.read_chain(conn, stream)]
    assert [event.version for event in chain] == [1, 2, 3]
    assert [event.prev_event_hash for event in chain] == [None, chain[0].event_hash, chain[1].event_hash]


async def test_a_fresh_chain_verifies(database: Database, tenant: TenantId, act: Act) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 5)

    async with database.tenant(tenant) as conn:
        verified = await events.verify_chain(conn, stream)

    assert (verified.events, verified.chains, verified.faults) == (5, 1, ())


async def test_a_writer_with_an_old_version_is_refused_and_can_go_on(
    database: Database, tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 2)

    async with database.tenant(tenant) as conn:
        with pytest.raises(EventVersionConflict) as refused:
            await events.append(conn, stream, act.new_event("LATE", {}), after=1)
        third = await events.append(conn, stream, act.new_event("IN_TIME", {}), after=2)

    assert refused.value.retryable
    assert refused.value.details == {"expected_version": 1, "version": 2}
    assert third.version == 3


async def test_a_rolled_back_append_leaves_no_gap(database: Database, tenant: TenantId, act: Act) -> None:
    stream = make_stream(tenant)

    class ChangedMyMind(Exception):
        pass

    with pytest.raises(ChangedMyMind):
        async with database.tenant(tenant) as conn:
            await events.append(conn, stream, act.new_event("NEVER", {}))
            raise ChangedMyMind
    await append_events(database, stream, act, 1)

    async with database.tenant(tenant) as conn:
        assert [row.event.version for row in await events.read_chain(conn, stream)] == [1]


async def test_a_payload_that_the_database_cannot_store_is_refused_before_anything_is_written(
    database: Database, tenant: TenantId, act: Act
) -> None:
    with pytest.raises(Invalid, match=r"U\+0000"):
        async with database.tenant(tenant) as conn:
            await events.append(conn, make_stream(tenant), act.new_event("X", {"text": "a\0b"}))

    async with database.tenant(tenant) as conn:
        await events.append(conn, make_stream(tenant), act.new_event("X", {"text": "a literal \\u0000 is fine"}))


async def test_every_json_value_survives_storage(database: Database, tenant: TenantId, act: Act) -> None:
    stream = make_stream(tenant)
    payload = {"int": 10**599, "neg": -5, "text": '\u2028\U0001f600\x1f"\\', "list": [True, None, {"": {}}], "é": 1}

    async with database.tenant(tenant) as conn:
        await events.append(conn, stream, act.new_event("X", payload))
        verified = await events.verify_chain(conn, stream)

    assert verified.faults == ()


CHANGES = [
    ("event_id", "gen_random_uuid()", "its id does not belong to its hash"),
    ("aggregate_version", "7", "is missing before it"),
    ("event_type", "event_type || 'x'", "its members do not give its event hash"),
    ("occurred_at", "occurred_at + interval '1 microsecond'", "its members do not give its event hash"),
    ("occurred_at", "'infinity'", "its members do not give its event hash"),
    ("occurred_at", "'0044-03-15 BC'", "its members do not give its event hash"),
    ("actor_id", "(SELECT actor_id FROM actors LIMIT 1)", "its members do not give its event hash"),
    ("payload", """payload || '{"number": 99}'""", "its queryable payload differs from the canonical one"),
    ("payload_canonical", "set_byte(payload_canonical, 3, 33)", "its payload does not have the hash it claims"),
    ("payload_hash", "set_byte(payload_hash, 0, get_byte(payload_hash, 0) # 1)", "its members do not give"),
    ("prev_event_hash", "set_byte(prev_event_hash, 31, get_byte(prev_event_hash, 31) # 128)", "does not follow"),
    ("event_hash", "set_byte(event_hash, 5, get_byte(event_hash, 5) # 16)", "its members do not give its event hash"),
]


@pytest.mark.parametrize("version", [2, 3], ids=["in-the-middle", "at-the-end"])
@pytest.mark.parametrize(("column", "expression", "says"), CHANGES)
async def test_one_change_to_any_column_is_found_and_the_event_is_named(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    act: Act,
    column: str,
    expression: str,
    says: str,
    version: int,
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 3)
    async with database.tenant(tenant) as conn:
        from bpc.storage.access import tenants_and_actors

        await tenants_and_actors.create_actor(conn, tenant, kind="USER", display_name="Somebody", roles=[], act=act)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")  # past the triggers
        await superuser.execute("ALTER TABLE events DROP CONSTRAINT events_time_has_a_form")
        changed = await superuser.execute(
            f"UPDATE events SET {column} = {expression} WHERE aggregate_id = $1 AND aggregate_version = $2",
            stream.aggregate_id,
            version,
        )

    assert changed == "UPDATE 1"
    async with database.tenant(tenant) as conn:
        faults = (await events.verify_tenant(conn, tenant)).faults
    assert any(says in fault.says for fault in faults)
    assert {fault.stream for fault in faults} == {stream}
    assert {fault.version for fault in faults} <= {version, version + 1, 7}


@pytest.mark.parametrize(
    ("column", "expression"), [("aggregate_type", "'Passport'"), ("aggregate_id", "gen_random_uuid()")]
)
async def test_an_event_moved_to_another_chain_is_found_there(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    act: Act,
    column: str,
    expression: str,
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 1)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(f"UPDATE events SET {column} = {expression} WHERE aggregate_id = $1", stream[2])

    async with database.tenant(tenant) as conn:
        faults = (await events.verify_tenant(conn, tenant)).faults
    assert [fault.says for fault in faults] == ["its members do not give its event hash"]


async def test_an_event_moved_to_a_tenant_that_does_not_exist_is_found_by_the_system(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 1)
    async with database.system() as conn:
        assert await events.list_events_without_tenant(conn) == []

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("UPDATE events SET tenant_id = gen_random_uuid() WHERE aggregate_id = $1", stream[2])

    async with database.system() as conn:
        faults = await events.list_events_without_tenant(conn)
    assert [(fault.stream[1:], fault.version) for fault in faults] == [(stream[1:], 1)]
    assert "does not exist" in faults[0].says


async def test_a_deleted_event_in_the_middle_is_found(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 3)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version = 2", stream[2])

    async with database.tenant(tenant) as conn:
        faults = (await events.verify_chain(conn, stream)).faults
    assert [(fault.version, fault.says) for fault in faults] == [(3, "version 2 is missing before it")]


async def test_a_chain_goes_on_after_retention_removed_its_beginning(
    database: Database, tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 3)
    async with database.system(tenant) as conn:
        last = (await events.read_chain(conn, stream))[-1].event
        await cut_chain(conn, stream, ChainHead(last.version, last.event_hash), act)

    await append_events(database, stream, act, 1)

    async with database.tenant(tenant) as conn:
        assert [row.event.version for row in await events.read_chain(conn, stream)] == [4]
        assert (await events.verify_chain(conn, stream)).faults == ()
        assert (await events.verify_tenant(conn, tenant)).faults == ()


INSERT_ANCHOR = """
    INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT tenant_id, aggregate_type, aggregate_id, $2, CASE WHEN $3 THEN event_hash ELSE sha256('x') END FROM events
     WHERE aggregate_id = $1 AND aggregate_version = 2
"""


async def test_even_the_system_cannot_remove_an_event_without_an_anchor_or_set_one_without_an_event(
    database: Database, tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)
    await append_events(database, stream, act, 3)

    refused_statements: list[tuple[str, tuple[object, ...], str]] = [
        ("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version = 1", (), "behind an anchor"),
        (INSERT_ANCHOR, (2, False), "where an event of that version and hash is"),
        (INSERT_ANCHOR, (4, True), "where an event of that version and hash is"),
    ]
    for query, arguments, says in refused_statements:
        with pytest.raises(Conflict, match=says):
            async with database.system(tenant) as conn:
                await conn.execute(query, stream.aggregate_id, *arguments)

    async with database.system(tenant) as conn:
        await conn.execute(INSERT_ANCHOR, stream.aggregate_id, 2, True)
        await conn.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version <= 2", stream.aggregate_id)
    for query, says in [
        ("DELETE FROM events WHERE aggregate_id = $1", "behind an anchor"),
        ("UPDATE event_anchors SET aggregate_version = 1 WHERE aggregate_id = $1", "forward"),
        ("DELETE FROM event_anchors WHERE aggregate_id = $1", "permission denied"),
    ]:
        with pytest.raises((Conflict, asyncpg.InsufficientPrivilegeError), match=says):
            async with database.system(tenant) as conn:
                await conn.execute(query, stream.aggregate_id)
    async with database.tenant(tenant) as conn:
        faults = (await events.verify_chain(conn, stream)).faults
    assert [fault.says for fault in faults] == ["no RetentionApplied event vouches for the anchor its chain begins at"]


async def test_append_uses_a_known_head_and_reads_it_again_if_it_is_stale(
    database: Database, tenant: TenantId, act: Act
) -> None:
    stream = make_stream(tenant)

    async with database.tenant(tenant) as conn:
        first = await events.append(conn, stream, act.new_event("FIRST", {}), head=EMPTY_CHAIN)
        head = ChainHead(first.version, first.event_hash)
        second = await events.append(conn, stream, act.new_event("SECOND", {}), head=head)
        third = await events.append(conn, stream, act.new_event("THIRD", {}), head=head)
        verified = await events.verify_chain(conn, stream)

    assert [event.version for event in (first, second, third)] == [1, 2, 3]
    assert third.prev_event_hash == second.event_hash
    assert (verified.events, verified.faults) == (3, ())
