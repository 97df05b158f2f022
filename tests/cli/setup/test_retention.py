"""`bpc retention`: what would go is shown first, what goes is on record, and it can be stopped."""

import asyncio
import getpass
import json
import platform
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.database import open_database
from tests.cli.conftest import Installation
from tests.cli.program import Program

ZERO = {
    "document_versions": 0,
    "passport_versions": 0,
    "passport_exports": 0,
    "events": 0,
    "webhook_deliveries": 0,
    "anchors": 0,
}


@pytest.fixture
def slug(installation: Installation) -> str:
    """A tenant of long ago, with one chain that goes on today."""
    slug = f"old-{clock.new_id().hex[-8:]}"
    asyncio.run(_make_old_data(installation, slug))
    return slug


async def _make_old_data(installation: Installation, slug: str) -> None:
    database = await open_database(installation.server.address("bpc"), pool_size=2)
    try:
        long_ago, now = Act(None, clock.now() - timedelta(days=6_000)), Act(None, clock.now())
        tenant = TenantId(await tenants_and_actors.create_tenant(database, slug=slug, name=slug, act=long_ago))
        async with database.tenant(tenant) as conn:
            stream = EventStream(tenant, "Thing", AggregateId(clock.new_id()))
            for act in (long_ago, long_ago, now):
                await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {}))
    finally:
        await database.close()


@pytest.fixture
def bpc(installation: Installation) -> Iterator[Program]:
    yield installation.bpc
    installation.bpc.run_ok("retention", "resume")


def test_what_would_go_is_counted_and_then_goes_and_the_log_still_verifies(bpc: Program, slug: str) -> None:
    gone = {**ZERO, "tenant": slug, "events": 5, "anchors": 4}  # of the document two, of its three roles one each

    counted = bpc.run_ok("retention", "run", "--tenant", slug, "--dry-run", "--json").json()
    again = bpc.run_ok("retention", "run", "--tenant", slug, "--dry-run", "--json").json()
    removed = bpc.run_ok("retention", "run", "--tenant", slug, "--json").json()
    after = bpc.run_ok("retention", "run", "--tenant", slug, "--json").json()

    assert (counted["dry_run"], counted["tenants"]) == (True, [gone])
    assert again["tenants"] == [gone]
    assert (removed["dry_run"], removed["tenants"]) == (False, [gone])
    assert removed["cutoffs"].keys() == {"document_versions", "passport_versions", "passport_exports", "events"}
    assert after["tenants"] == [{**ZERO, "tenant": slug}]
    [verified] = bpc.run_ok("audit", "verify", "--tenant", slug, "--json").json()["tenants"]
    assert (verified["events"], verified["faults"]) == (3, [])


def test_a_person_sees_a_table(bpc: Program, slug: str) -> None:
    output = bpc.run_ok("retention", "run", "--dry-run").out.splitlines()

    assert output[0].split() == ["TENANT", "CONTENTS", "PASSPORT", "VERSIONS", "EXPORTS", "EVENTS", "DELIVERIES"]
    assert next(row.split() for row in output if row.startswith(slug)) == [slug, "0", "0", "0", "5", "0"]
    assert output[-1] == "nothing was deleted: --dry-run"


def test_while_it_is_paused_nothing_goes(bpc: Program, slug: str) -> None:
    bpc.run_ok("retention", "pause")
    refused = bpc.run("retention", "run", "--tenant", slug)
    counted = bpc.run_ok("retention", "run", "--tenant", slug, "--dry-run", "--json").json()
    resumed = bpc.run_ok("retention", "resume", "--json").json()

    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("CONFLICT: retention is paused")
    assert counted["tenants"][0]["events"] == 5
    assert resumed == {"paused": False}
    assert bpc.run_ok("retention", "run", "--tenant", slug, "--json").json()["tenants"][0]["events"] == 5


def test_who_paused_it_and_why_is_on_record(bpc: Program, installation: Installation) -> None:
    bpc.run_ok("retention", "pause", "--reason", "legal hold, case 4711")
    bpc.run_ok("retention", "resume")

    paused, resumed = asyncio.run(_list_pauses(installation))[-2:]
    assert (paused["event_type"], resumed["event_type"]) == ("RETENTION_PAUSED", "RETENTION_RESUMED")
    assert json.loads(paused["payload"]) == {
        "operator": f"{getpass.getuser()}@{platform.node()}",
        "reason": "legal hold, case 4711",
    }
    assert json.loads(resumed["payload"])["reason"] is None
    [verified] = bpc.run_ok("audit", "verify", "--tenant", "system", "--json").json()["tenants"]
    assert verified["faults"] == []


async def _list_pauses(installation: Installation) -> list[asyncpg.Record]:
    conn = await asyncpg.connect(**installation.server.superuser_address("bpc").connect_arguments())
    try:
        rows: list[asyncpg.Record] = await conn.fetch(
            "SELECT event_type, payload::text AS payload FROM events WHERE event_type LIKE 'RETENTION\\_%'"
            " ORDER BY occurred_at"
        )
        return rows
    finally:
        await conn.close()


def test_an_unknown_tenant_is_refused(bpc: Program) -> None:
    ended = bpc.run("retention", "run", "--tenant", "nobody")

    assert ended.code == 1
    assert ended.err.startswith("NOT_FOUND: there is no tenant `nobody`")
