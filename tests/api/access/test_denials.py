"""Denied access: on record with who, what and why, bounded, and never at the cost of those who may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson
import pytest
import structlog

from bpc.api.access.denials import MAX_PER_WINDOW, DenialBudget, Denials, _RecentDenials
from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import ActorId, TenantId
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.database import Database, open_database
from tests.api.conftest import PEPPERS, Api

PATH = "/v1/documents"


async def _read_denials(superuser: Any) -> list[dict[str, Any]]:
    rows = await superuser.fetch(
        """SELECT aggregate_type, aggregate_id, actor_id, tenant_id, payload_canonical FROM events
            WHERE event_type = 'ACCESS_DENIED' ORDER BY aggregate_id, aggregate_version"""
    )
    return [{**dict(row), "payload": orjson.loads(row["payload_canonical"])} for row in rows]


async def test_a_denied_request_is_on_record_with_who_what_and_why(
    auditor: Api, superuser: Any, tenant: TenantId, database: Database
) -> None:
    assert (await auditor.get(f"{PATH}/{clock.new_id()}")).status_code == 403

    [event] = await _read_denials(superuser)
    actor = await superuser.fetchval("SELECT actor_id FROM actors WHERE display_name = 'Auditor'")
    assert (event["aggregate_type"], event["aggregate_id"], event["actor_id"], event["tenant_id"]) == (
        "Actor",
        actor,
        actor,
        tenant,
    )
    assert event["payload"] == {
        "method": "GET",
        "route": "/v1/documents/{document_id}",
        "permission": "docs:read",
        "reason": "no role of the actor has `docs:read`",
    }
    async with database.tenant(tenant) as conn:
        assert (await events.verify_tenant(conn, tenant)).faults == ()


async def test_the_policy_that_decided_is_on_record(admin: Api, officer: Api, superuser: Any) -> None:
    policy = await admin.post_json("/v1/policies", {"name": "Closed", "effect": "DENY", "target": "docs:*"})
    await officer.get(PATH)

    [event] = await _read_denials(superuser)
    assert event["payload"]["policy_version_id"] == policy["active"]["policy_version_id"]
    assert (event["payload"]["policy_id"], event["payload"]["policy_version"]) == (policy["policy_id"], 1)


async def test_a_denied_write_leaves_nothing_but_its_record(auditor: Api, superuser: Any) -> None:
    before = await superuser.fetchval("SELECT count(*) FROM events")

    assert (await auditor.post(PATH, {"kind": "OTHER"}, idempotency_key="k")).status_code == 403

    assert await superuser.fetchval("SELECT count(*) FROM events") == before + 1
    assert await superuser.fetchval("SELECT count(*) FROM documents") == 0
    assert await superuser.fetchval("SELECT count(*) FROM idempotency_keys") == 0


async def test_what_is_of_another_tenant_is_not_found_and_no_denial(
    admin: Api, other_admin: Api, superuser: Any
) -> None:
    document = (await admin.post_json(PATH, {"kind": "OTHER"}))["document_id"]

    assert (await other_admin.get(f"{PATH}/{document}")).status_code == 404

    assert await _read_denials(superuser) == []


async def test_ten_a_second_are_recorded_one_by_one_and_the_rest_as_a_count(
    auditor: Api, service: Service, superuser: Any
) -> None:
    answers = await asyncio.gather(*(auditor.get(PATH) for _ in range(50)))
    await service.denials.close()

    assert {answer.status_code for answer in answers} == {403}
    recorded = [event["payload"] for event in await _read_denials(superuser)]
    one_by_one = [payload for payload in recorded if "count" not in payload]
    counted = sum(payload["count"] for payload in recorded if "count" in payload)
    assert len(one_by_one) + counted == 50
    assert len(one_by_one) >= MAX_PER_WINDOW


def test_in_no_second_are_more_than_ten_recorded_one_by_one() -> None:
    """Also around the end of one: twenty within a moment are not two times ten."""
    lately = _RecentDenials()

    taken = [at for at in (0.0, *[0.75] * 9, *[1.0] * 9, *[1.5] * 9, *[1.75] * 20, 3.0) if lately.try_take(at)]

    assert taken == [0.0, *[0.75] * 9, 1.0, *[1.75] * 9, 3.0]


async def test_every_actor_has_its_own_ten(database: Database, tenant: TenantId, superuser: Any, act: Act) -> None:
    denials, one = Denials(), await _create_actor(database, tenant, act)
    another = await _create_actor(database, tenant, act)

    await asyncio.gather(
        *(denials.record(database, tenant, one, act.at, {"reason": "test"}) for _ in range(MAX_PER_WINDOW + 5)),
        *(denials.record(database, tenant, another, act.at, {"reason": "test"}) for _ in range(MAX_PER_WINDOW)),
    )
    await denials.close()

    recorded = await _read_denials(superuser)
    assert [event["payload"] for event in recorded if event["aggregate_id"] == another] == [
        {"reason": "test"}
    ] * MAX_PER_WINDOW
    [counted] = [event["payload"] for event in recorded if "count" in event["payload"]]
    assert counted == {"count": 5, "reason": "more within one second"}


async def test_the_count_is_written_when_the_second_is_over_without_anybody_closing(
    database: Database, tenant: TenantId, superuser: Any, act: Act
) -> None:
    denials, actor = Denials(), await _create_actor(database, tenant, act)
    for _ in range(MAX_PER_WINDOW + 3):
        await denials.record(database, tenant, actor, act.at, {"reason": "test"})

    async with asyncio.timeout(60):
        await asyncio.gather(*denials._tasks)

    assert [event["payload"]["count"] for event in await _read_denials(superuser) if "count" in event["payload"]] == [3]
    assert denials._recent == {}, "nothing is remembered of who is quiet"


async def test_a_count_that_cannot_be_written_is_told_to_the_log_and_ends_nothing(
    database: Database, tenant: TenantId, act: Act, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpc.api.access.denials.WINDOW_SECONDS", 3600)  # however long the first ones take
    denials, actor = Denials(), await _create_actor(database, tenant, act)
    gone = await open_database(address, pool_size=1)
    for _ in range(MAX_PER_WINDOW):
        await denials.record(gone, tenant, actor, act.at, {"reason": "test"})
    await gone.close()

    with structlog.testing.capture_logs() as log_entries:
        await denials.record(gone, tenant, actor, act.at, {"reason": "test"})
        await denials.close()

    assert [line["log_level"] for line in log_entries if line["log_level"] == "error"] == ["error"]


@asynccontextmanager
async def _open_small_service(settings: Settings, address: Address, size: int) -> AsyncIterator[httpx2.AsyncClient]:
    """The application on a pool of its own, of this size."""
    database = await open_database(address, pool_size=size)
    try:
        async with open_service(settings, database, peppers=PEPPERS, key_ring=KeyRing({})) as service:
            transport = httpx2.ASGITransport(app=create_app(service), raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as client:
                yield client
    finally:
        await database.close()


async def test_denials_never_wait_for_each_others_connections(
    settings: Settings, address: Address, admin: Api, auditor: Api, officer: Api, superuser: Any
) -> None:
    """Many denied and revoked at once on two connections: who holds one must not wait for another."""
    await superuser.execute("UPDATE api_keys SET revoked_at = now() WHERE key_prefix = $1", str(officer.key)[4:14])
    async with _open_small_service(settings, address, 2) as http:
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(Api(http, auditor.key).get(PATH) for _ in range(25)),
                *(Api(http, officer.key).get(PATH) for _ in range(25)),
                *(Api(http, admin.key).get(PATH) for _ in range(10)),
            )

    codes = [answer.status_code for answer in answers]
    assert (codes.count(403), codes.count(401), codes.count(200)) == (25, 25, 10)
    recorded = [event["payload"] for event in await _read_denials(superuser)]
    assert sum(payload.get("count", 1) for payload in recorded) == 50


async def _create_actor(database: Database, tenant: TenantId, act: Act) -> ActorId:
    async with database.tenant(tenant) as conn:
        return await tenants_and_actors.create_actor(conn, tenant, kind="USER", display_name="Ada", roles=[], act=act)


@pytest.mark.long
def test_a_day_of_denials_writes_a_few_thousand_events_however_many_they_are() -> None:
    recent, written, window_ends = _RecentDenials(), 0, 1.0
    for moment in range(24 * 60 * 60 * 2):  # twenty tries every half second
        now = moment / 2
        if now >= window_ends:
            written += bool(recent.take_count())
            window_ends = now + recent.window
        for _ in range(20):
            if recent.try_take(now):
                written += 1
            else:
                recent.suppressed += 1

    assert 100 < written < 6_000


def test_after_a_pause_the_window_is_short_again() -> None:
    recent = _RecentDenials(suppressed=5)

    assert (recent.take_count(), recent.window) == (5, 2.0)
    assert (recent.take_count(), recent.window) == (0, 1.0)


def test_slow_denials_of_one_actor_or_of_many_are_bounded_too() -> None:
    """Nine a second stay below every limit of a second."""
    budget, tenant = DenialBudget(), TenantId(clock.new_id())
    one, many = ActorId(clock.new_id()), [ActorId(clock.new_id()) for _ in range(500)]
    a_day = range(24 * 60 * 60)

    of_one = sum(budget.try_take(tenant, one, second) for second in a_day for _ in range(9))
    of_many = sum(budget.try_take(tenant, many[second % 500], a_day[-1] + second) for second in a_day)

    assert 2_000 < of_one < 4_000
    assert 20_000 < of_many < 40_000
