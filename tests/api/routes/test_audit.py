"""The audit log over HTTP: found by what is asked for, without reading the rest, and verified on demand."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest
from tests.jobs.support.query_plans import Node, explain_plan, flatten_nodes

from bpc.api.routes import audit_and_log as audit_routes
from bpc.core.audit.events import Act, AuditEvent, ChainFault, ChainHead, EventStream, StoredEvent, find_chain_faults
from bpc.core.errors import Invalid
from bpc.core.formats.ids import ActorId, AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import event_search, events
from bpc.storage.audit.event_search import EventFilter
from bpc.storage.audit.events import VERIFY_CHUNK, ChainVerification
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.storage.rows import insert_actor

MANY: Final = 20_000
# Newest first: 10,000 events that nobody here looks for, so that what is looked for is common, but long ago.
FILL: Final = """
    INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                        actor_id, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
    SELECT $1, gen_random_uuid(), CASE WHEN n > $2 / 2 THEN 'Recent' ELSE 'Type' || n % 5 END, gen_random_uuid(), 1,
           CASE WHEN n > $2 / 2 THEN 'RECENT' ELSE 'EVENT_' || n % 7 END,
           '2026-01-01 UTC'::timestamptz + n * interval '1 s',
           CASE WHEN n <= $2 / 2 THEN ($3::uuid[])[1 + n % 3] END, '{}', '{}', sha256('{}'), NULL,
           sha256(n::text::bytea)
      FROM generate_series(1, $2::int) AS n
"""
# A chain of its own length, whose times run against its versions.
LENGTHEN: Final = """
    INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                        actor_id, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
    SELECT $1, gen_random_uuid(), 'Type1', $2, n, 'EVENT_1', '2025-01-01 UTC'::timestamptz - n * interval '1 s', NULL,
           '{}', '{}', sha256('{}'), sha256('{}'), sha256(('chain' || n)::bytea)
      FROM generate_series(2, 2000) AS n
"""
# Whether the server has come to use one plan for whatever is asked.
KEPT: Final = "SELECT sum(generic_plans) > 0 FROM pg_prepared_statements WHERE statement = $1"
AGGREGATE: Final = "SELECT aggregate_id FROM events WHERE tenant_id = $1 AND aggregate_type = 'Type1' LIMIT 1"


async def _create_documents(admin: Api, count: int) -> list[str]:
    return [str((await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]) for _ in range(count)]


async def test_what_was_done_is_listed_newest_first_with_all_that_is_hashed(admin: Api) -> None:
    first, second = await _create_documents(admin, 2)

    listed = await admin.get_json("/v1/audit/events", params={"event_type": "DOCUMENT_CREATED"})

    assert [item["aggregate_id"] for item in listed["items"]] == [second, first]
    newest = listed["items"][0]
    assert set(newest) == {
        *("event_id", "aggregate_type", "aggregate_id", "aggregate_version", "event_type", "occurred_at", "actor_id"),
        *("payload", "payload_hash", "prev_event_hash", "event_hash"),
    }
    assert newest["payload"] == {"kind": "BOM", "external_ref": None}
    assert (newest["aggregate_version"], newest["prev_event_hash"]) == (1, None)
    assert await admin.get_json(f"/v1/audit/events/{newest['event_id']}") == newest


async def test_every_filter_holds_and_all_hold_together(admin: Api) -> None:
    first, second = await _create_documents(admin, 2)
    events_of = {
        item["aggregate_id"]: item
        for item in (await admin.get_json("/v1/audit/events?aggregate_type=Document"))["items"]
    }
    actor = events_of[first]["actor_id"]
    somebody = str(clock.new_id())

    async def list_ids(**filters: str) -> list[str]:
        listed = await admin.get_json("/v1/audit/events", params=filters)
        return [item["aggregate_id"] for item in listed["items"]]

    assert await list_ids(aggregate_type="Document") == [second, first]
    assert await list_ids(aggregate_type="Document", aggregate_id=first) == [first]
    assert await list_ids(aggregate_type="Actor", aggregate_id=first) == []
    assert await list_ids(actor_id=actor) == [second, first]
    assert await list_ids(actor_id=actor, event_type="DOCUMENT_CREATED", aggregate_type="Document") == [
        second,
        first,
    ]
    assert await list_ids(actor_id=actor, event_type="ACTOR_CREATED") == []
    assert await list_ids(actor_id=somebody) == await list_ids(event_type="NO_SUCH") == []
    assert await list_ids(aggregate_type="Document", occurred_after=events_of[second]["occurred_at"]) == [second]
    assert await list_ids(aggregate_type="Document", occurred_before=events_of[second]["occurred_at"]) == [first]
    assert (
        await list_ids(
            aggregate_type="Document",
            occurred_after=events_of[first]["occurred_at"],
            occurred_before=events_of[first]["occurred_at"],
        )
        == []
    )


@pytest.mark.parametrize(
    "filters",
    [{}, {"aggregate_type": "Document"}, {"event_type": "DOCUMENT_CREATED"}, {"actor_id": "me"}, {"chain": "yes"}],
    ids=lambda filters: "+".join(filters) or "none",
)
async def test_pages_put_together_are_the_whole_list_once(
    admin: Api, database: Database, tenant: TenantId, act: Act, filters: dict[str, str]
) -> None:
    [document] = await _create_documents(admin, 1)
    async with database.tenant(tenant) as conn:
        for _ in range(6):  # at one and the same moment
            stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
            await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {}))
    await _create_documents(admin, 3)
    if "actor_id" in filters:
        filters = {"actor_id": (await admin.get_json("/v1/audit/events?limit=1"))["items"][0]["actor_id"]}
    if "chain" in filters:
        filters = {"aggregate_type": "Document", "aggregate_id": document}
    full_list = await admin.get_json("/v1/audit/events", params={**filters, "limit": "200"})

    pages, cursor = [], None
    while True:
        more: dict[str, str] = {"cursor": cursor} if cursor else {}
        page = await admin.get_json("/v1/audit/events", params={**filters, "limit": "2", **more})
        pages += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert pages == full_list["items"] != []


@pytest.mark.parametrize(
    "query",
    [
        "aggregate_id=11111111-1111-4111-8111-111111111111",
        "aggregate_id=x&aggregate_type=Document",
        "event_type=a'b",
        "actor_id=me",
        "occurred_after=yesterday",
        "since=2027-02-18T00:00:00.000000Z",
        "limit=0",
        "cursor=AAAA",
    ],
)
async def test_a_filter_that_says_nothing_is_refused(admin: Api, query: str) -> None:
    answer = await admin.get(f"/v1/audit/events?{query}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_who_may_not_read_the_log_gets_nothing_of_it(officer: Api, anonymous: Api) -> None:
    paths = ["/v1/audit/events", f"/v1/audit/events/{clock.new_id()}", "/v1/audit/verify"]

    assert [(await officer.get(path)).status_code for path in paths] == [403] * 3
    assert [(await anonymous.get(path)).status_code for path in paths] == [401] * 3


async def test_another_tenants_events_do_not_exist(admin: Api, other_admin: Api) -> None:
    [document] = await _create_documents(admin, 1)
    event = (await admin.get_json("/v1/audit/events?event_type=DOCUMENT_CREATED"))["items"][0]["event_id"]
    unknown = str(clock.new_id())

    seen = await other_admin.get_json(
        "/v1/audit/events", params={"aggregate_type": "Document", "aggregate_id": document}
    )
    foreign = await other_admin.get(f"/v1/audit/events/{event}", headers={"X-Correlation-Id": document})
    missing = await other_admin.get(f"/v1/audit/events/{unknown}", headers={"X-Correlation-Id": document})

    assert seen == {"items": [], "next_cursor": None}
    assert foreign.status_code == missing.status_code == 404
    assert foreign.content.replace(event.encode(), unknown.encode()) == missing.content


async def test_numbers_of_a_payload_are_shown_exactly(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
    async with database.tenant(tenant) as conn:
        await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {"number": 2**53 + 1}))

    answer = await admin.get("/v1/audit/events?event_type=DOCUMENT_CREATED")

    assert str(2**53 + 1) in answer.text


# Plans ---------------------------------------------------------------------------------------------------------------


def test_an_aggregate_is_not_named_by_its_id_alone() -> None:
    with pytest.raises(Invalid, match="requires `aggregate_type`"):
        EventFilter(aggregate_id=AggregateId(clock.new_id()))


@pytest.mark.new_database  # which plan is chosen depends on where rows were before
async def test_every_combination_of_filters_is_read_from_an_index_and_in_its_order(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        actors = [await insert_actor(conn, tenant, act) for _ in range(3)]
    await superuser.execute(FILL, tenant, MANY, actors)
    aggregate = AggregateId(await superuser.fetchval(AGGREGATE, tenant))
    await superuser.execute(LENGTHEN, tenant, aggregate)
    await superuser.execute("VACUUM ANALYZE events")

    async with database.tenant(tenant) as conn:
        for event_filter in _list_filter_combinations(aggregate, actors[0]):
            ask = PageQuery.after_cursor(None, 51)
            nodes = await _explain(
                conn, event_filter.statement, *event_search.to_page_arguments(tenant, ask, event_filter)
            )
            for _ in range(8):
                await event_search.list_events(conn, tenant, ask, event_filter)

            _assert_bounded(nodes, event_filter)
            if event_filter in [*OF_ONE_KIND, EventFilter(aggregate_type="Type1", aggregate_id=aggregate)]:
                assert _count_rows_read(nodes) <= 51, event_filter
            if await conn.fetchval(KEPT, event_filter.statement):
                await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
                _assert_bounded(await explain_plan(conn, event_filter.statement, 9), event_filter)
                await conn.execute("RESET plan_cache_mode")


OF_ONE_KIND: Final = [EventFilter(), EventFilter(event_type="EVENT_1"), EventFilter(aggregate_type="Type1")]


def _list_filter_combinations(aggregate: AggregateId, actor: ActorId) -> list[EventFilter]:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        EventFilter(aggregate_type=kind, aggregate_id=which, event_type=what, actor_id=who, after=after, before=before)
        for (kind, which), what, who, after, before in itertools.product(
            ((None, None), ("Type1", None), ("Type1", aggregate)),
            (None, "EVENT_1"),
            (None, actor),
            (None, day),
            (None, day.replace(day=20)),
        )
    ]


async def _explain(conn: Connection, statement: str, *arguments: object) -> list[Node]:
    text = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    return list(flatten_nodes(json.loads(text)[0]["Plan"]))


def _assert_bounded(nodes: list[Node], event_filter: EventFilter) -> None:
    [scan] = [node for node in nodes if node.relation == "events"]
    assert scan.kind == "Index Scan", (event_filter, scan)
    assert scan.index == _index_for(event_filter), (event_filter, scan)
    assert "tenant_id" in scan.condition
    assert "ROW(" in scan.condition, (event_filter, scan)
    assert not [node for node in nodes if "Sort" in node.kind], event_filter


def _index_for(event_filter: EventFilter) -> str:
    if event_filter.aggregate_id is not None:
        return "events_of_aggregate_by_time"
    if event_filter.event_type is not None:
        return "events_by_type_time"
    if event_filter.actor_id is not None:
        return "events_by_actor_time"
    return "events_by_time" if event_filter.aggregate_type is None else "events_by_aggregate_type_time"


def _count_rows_read(nodes: list[Node]) -> int:
    [scan] = [node for node in nodes if node.relation == "events"]
    return int(scan.raw["Actual Rows"]) + int(scan.raw.get("Rows Removed by Filter", 0))


# Verifying -----------------------------------------------------------------------------------------------------------


async def test_a_log_that_nobody_touched_is_whole(admin: Api, auditor: Api) -> None:
    [document] = await _create_documents(admin, 1)

    verification = await auditor.get_json("/v1/audit/verify")
    chain = await auditor.get_json(f"/v1/audit/verify?aggregate_type=Document&aggregate_id={document}")

    assert (verification["ok"], verification["complete"], verification["faults"]) == (True, True, [])
    assert verification["events"] >= verification["chains"] > 1
    assert (verification["row_faults"], verification["not_covered"]) == ([], [])
    assert verification["rows"] > 1
    nothing = {"faults": [], "rows": 0, "row_faults": [], "not_covered": []}
    assert chain == {"ok": True, "complete": True, "events": 1, "chains": 1, **nothing}


async def test_a_changed_event_is_found_and_named(
    admin: Api, other_admin: Api, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    [document] = await _create_documents(admin, 1)
    await superuser.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    await superuser.execute('UPDATE events SET payload = \'{"kind": "PCF"}\' WHERE aggregate_id = $1', document)

    verification = await admin.get_json("/v1/audit/verify")
    chain = await admin.get_json(f"/v1/audit/verify?aggregate_type=Document&aggregate_id={document}")
    theirs = await other_admin.get_json(f"/v1/audit/verify?aggregate_type=Document&aggregate_id={document}")

    fault = {
        "aggregate_type": "Document",
        "aggregate_id": document,
        "version": 1,
        "says": "its queryable payload differs from the canonical one",
    }
    assert (verification["ok"], verification["faults"]) == (False, [fault])
    assert (chain["ok"], chain["faults"]) == (False, [fault])
    assert (theirs["ok"], theirs["events"]) == (True, 0)


@pytest.mark.parametrize("query", ["aggregate_type=Document", "aggregate_id=11111111-1111-4111-8111-111111111111"])
async def test_half_a_chain_is_refused(admin: Api, query: str) -> None:
    assert (await admin.get(f"/v1/audit/verify?{query}")).status_code == 422


async def test_what_takes_too_long_is_refused_with_another_way(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: Any, **__: Any) -> ChainVerification:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(events, "verify_tenant", endless)
    monkeypatch.setattr(audit_routes, "TIMEOUT_SHARE", 0.001)

    answer = await admin.get("/v1/audit/verify")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "REQUEST_TIMEOUT")
    assert "bpc audit verify" in answer.json()["error"]["message"]


async def test_faults_beyond_what_is_listed_are_said_to_be_there(
    admin: Api, superuser: "asyncpg.Connection[asyncpg.Record]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_routes, "MAX_FAULTS", 0)
    [document] = await _create_documents(admin, 1)
    await superuser.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    await superuser.execute('UPDATE events SET payload = \'{"kind": "PCF"}\' WHERE aggregate_id = $1', document)

    verification = await admin.get_json("/v1/audit/verify")

    assert (verification["ok"], verification["complete"], verification["faults"]) == (False, False, [])


async def test_others_get_their_turn_while_a_long_chain_is_verified(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenant: TenantId,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, count = EventStream(tenant, "Document", AggregateId(clock.new_id())), 20 * VERIFY_CHUNK
    await _append_chain(superuser, stream, count, act)
    turns, checked = 0, list[tuple[int, int]]()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def noted(rows: list[StoredEvent], start: ChainHead) -> Iterator[ChainFault]:
        checked.append((len(rows), turns))
        return find_chain_faults(rows, start)

    monkeypatch.setattr(events, "find_chain_faults", noted)
    beside = asyncio.create_task(other())
    async with database.tenant(tenant) as conn:
        verified = await events.verify_chain(conn, stream)
    beside.cancel()

    assert (verified.events, verified.faults) == (count, ())
    assert [size for size, _ in checked] == [VERIFY_CHUNK] * 20
    assert len({turn for _, turn in checked}) == len(checked), "somebody else had a turn between any two"


async def _append_chain(
    superuser: "asyncpg.Connection[asyncpg.Record]", stream: EventStream, count: int, act: Act
) -> None:
    head, rows = ChainHead(0, None), []
    for number in range(count):
        event = AuditEvent.chain_after(head, stream, act.new_event("DOCUMENT_CREATED", {"number": number}))
        head = ChainHead(event.version, event.event_hash)
        rows.append(tuple(events._to_arguments(event)))
    await superuser.executemany(events.INSERT_EVENT.replace("RETURNING true", ""), rows)
