"""The feed of events over HTTP: oldest first, each once, whatever is committed late."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg

from bpc.core.audit.events import Act
from bpc.core.formats.feed_cursor import FeedPosition
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.webhooks.webhook_fanout import append_and_announce
from tests.api.conftest import Api

PATH = "/v1/webhook-events"


async def _announce(conn: Connection, tenant: TenantId, sku: str, event_type: str = "PASSPORT_SIGNED") -> None:
    act = Act(None, clock.now())
    await append_and_announce(conn, act, tenant, "PassportVersion", clock.new_id(), event_type, {"sku": sku})


async def _read(api: Api, **params: Any) -> tuple[list[str], str, bool]:
    """The SKUs of a page, the next cursor, and whether there are more. The keys of this test may just be recorded."""
    page = await api.get_json(PATH, params=params)
    payloads = [item["data"]["payload"] for item in page["items"]]
    return [payload["sku"] for payload in payloads if "sku" in payload], page["next_cursor"], page["has_more"]


async def _follow(api: Api, count: int, **params: Any) -> tuple[list[str], str]:
    """The next `count` events. They come when no older transaction runs, also of tests beside this one."""
    skus: list[str] = []
    async with asyncio.timeout(60):
        while True:
            page, cursor, _ = await _read(api, **params)
            skus += page
            if len(skus) >= count:
                return skus, cursor
            params["after"] = cursor
            await asyncio.sleep(0.02)


async def test_the_feed_begins_now_and_gives_each_event_once(
    auditor: Api, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    nothing, start, _ = await _read(auditor)
    async with database.tenant(tenant) as conn:
        for number in range(5):
            await _announce(conn, tenant, f"A{number}")
    async with database.tenant(other_tenant) as conn:
        await _announce(conn, other_tenant, "theirs")

    first, cursor = await _follow(auditor, 3, after=start, at_most=3)
    rest, cursor = await _follow(auditor, 2, after=cursor, at_most=3)
    empty, same, has_more = await _read(auditor, after=cursor)

    assert nothing == empty == []
    assert (first + rest, has_more) == ([f"A{number}" for number in range(5)], False)
    async with database.tenant(tenant) as conn:
        await _announce(conn, tenant, "later")
    assert (await _follow(auditor, 1, after=same))[0] == ["later"]
    assert (await _follow(auditor, 1, after=cursor))[0] == ["later"]


async def test_an_event_that_is_committed_late_is_not_passed_over(
    auditor: Api, database: Database, tenant: TenantId
) -> None:
    _, start, _ = await _read(auditor)
    async with database.tenant(tenant) as slow:
        await _announce(slow, tenant, "slow")
        async with database.tenant(tenant) as quick:
            await _announce(quick, tenant, "quick")
        meanwhile, cursor, _ = await _read(auditor, after=start)

    afterwards, cursor = await _follow(auditor, 2, after=cursor)

    assert (meanwhile, sorted(afterwards)) == ([], ["quick", "slow"])
    assert (await _read(auditor, after=cursor))[0] == []


async def test_each_item_continues_after_itself_and_is_the_body_of_its_webhook(
    auditor: Api, database: Database, tenant: TenantId
) -> None:
    _, start, _ = await _read(auditor)
    async with database.tenant(tenant) as conn:
        await _announce(conn, tenant, "A")
        await _announce(conn, tenant, "B")
    await _follow(auditor, 2, after=start)

    params = {"after": start, "event_type": "passport.version.signed"}
    items = (await auditor.get_json(PATH, params=params))["items"]

    assert (await _read(auditor, after=items[0]["cursor"]))[0] == ["B"]
    assert set(items[0]) == {"event_type", "event_id", "occurred_at", "tenant_id", "data", "cursor"}
    assert (items[0]["event_type"], items[0]["tenant_id"]) == ("passport.version.signed", str(tenant))


async def test_the_feed_is_filtered_by_type_and_time(auditor: Api, database: Database, tenant: TenantId) -> None:
    _, start, _ = await _read(auditor)
    before = format_time(clock.now() - timedelta(seconds=1))
    async with database.tenant(tenant) as conn:
        await _announce(conn, tenant, "signed")
        await _announce(conn, tenant, "ready", "QR_GENERATED")
        await _announce(conn, tenant, "revoked", "PASSPORT_REVOKED")
    await _follow(auditor, 3, after=start)
    types = "passport.version.ready,passport.version.revoked"

    assert (await _read(auditor, since=before, event_type="passport.version.signed"))[0] == ["signed"]
    assert (await _read(auditor, since=before, event_type=types))[0] == ["ready", "revoked"]
    assert (await _read(auditor, since=format_time(clock.now() + timedelta(hours=1)), event_type=types))[0] == []


async def test_wrong_cursors_and_cursors_of_a_restored_database_are_refused(
    auditor: Api, officer: Api, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    following = await superuser.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    from_another_life = FeedPosition(transaction=following + 100_000).to_cursor()

    lost = await auditor.get(PATH, params={"after": from_another_life})

    assert (lost.status_code, lost.json()["error"]["code"]) == (409, "CONFLICT")
    assert "restored" in lost.json()["error"]["message"]
    for wrong in ("x", "evt_1_2_3", f"evt_{2**63}_0_{'0' * 32}", f"evt_1_{'9' * 18}_{'0' * 32}"):
        assert (await auditor.get(PATH, params={"after": wrong})).status_code == 422, wrong
    assert (await auditor.get(PATH, params={"event_type": "no.such.type"})).status_code == 422
    assert (await officer.get(PATH)).status_code == 403
