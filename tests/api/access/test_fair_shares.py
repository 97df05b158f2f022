"""Turns, shares of the event loop and attempts: what one tenant or address may take while others are there."""

import asyncio
import hashlib
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from tests.jobs.support.run_workers import wait_until

from bpc.api.access.admission import FAILURE_BURST, MAX_IN_FLIGHT, AddressLimits, Admission, find_address
from bpc.api.access.answer_memory import LARGE_ANSWER_BYTES
from bpc.api.access.loop_shares import (
    BUSY_WINDOW_SECONDS,
    MAX_CREDIT_SECONDS,
    MAX_DEBT_SECONDS,
    CpuMeter,
    LoopShares,
    install_meter,
    run_metered,
)
from bpc.api.access.tenant_limits import (
    ACTIVE_SECONDS,
    MAX_WAITING_TURNS,
    RateLimited,
    RequestTurns,
    TenantActivity,
    TenantMemory,
)
from bpc.api.http.request_context import Service
from bpc.core.api_keys import ApiKeySecret
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access import storage_quota
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.storage.evidence_rows import insert_document_version

LOUD, QUIET = TenantId(clock.new_id()), TenantId(clock.new_id())


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_tenant_has_half_of_the_turns_while_others_are_active_and_never_all() -> None:
    moment = Time()
    activity = TenantActivity(moment)
    turns = RequestTurns(10, activity)
    stop = asyncio.Event()

    async def request(tenant: TenantId | None) -> None:
        async with turns.take(tenant):
            await stop.wait()

    activity.note_request(LOUD)
    tasks = [asyncio.create_task(request(LOUD)) for _ in range(8 + MAX_WAITING_TURNS)]
    await asyncio.sleep(0)
    assert turns.count_running(LOUD) == 8, "alone, it leaves two"
    with pytest.raises(RateLimited):
        await request(LOUD)
    tasks[-1].cancel()  # one that waits
    await asyncio.gather(tasks.pop(), return_exceptions=True)

    activity.note_request(QUIET)
    stop.set()
    await asyncio.gather(*tasks)
    stop.clear()
    tasks = [asyncio.create_task(request(tenant)) for tenant in (LOUD, QUIET, None) for _ in range(8)]
    await asyncio.sleep(0)
    assert [turns.count_running(tenant) for tenant in (LOUD, QUIET, None)] == [5, 5, 2]
    stop.set()
    await asyncio.gather(*tasks)
    assert [turns.count_running(tenant) for tenant in (LOUD, QUIET, None)] == [0, 0, 0]
    moment.now += ACTIVE_SECONDS + 1
    activity.note_request(LOUD)
    assert not activity.has_others(LOUD)


async def test_a_request_that_is_cancelled_while_turns_are_given_back_costs_nobody_a_turn() -> None:
    turns = RequestTurns(2, TenantActivity(Time()))  # one turn for a tenant

    async def request(started: asyncio.Event, stop: asyncio.Event) -> None:
        async with turns.take(LOUD):
            started.set()
            await stop.wait()

    for cancels_first in (True, False):
        started, stops = [asyncio.Event() for _ in range(3)], [asyncio.Event() for _ in range(3)]
        first, second, third = (asyncio.create_task(request(*events)) for events in zip(started, stops, strict=True))
        await started[0].wait()
        await asyncio.sleep(0)  # the second and the third wait
        if cancels_first:  # the turn is given back before the second has noticed that it is cancelled
            second.cancel()
            first.cancel()
        else:  # the second is cancelled after it got the turn, before it has noticed that
            stops[0].set()
            while len(turns._tenants[LOUD].waiting) == 2:
                await asyncio.sleep(0)
            second.cancel()

        with pytest.raises(asyncio.CancelledError):
            await second
        await asyncio.wait_for(started[2].wait(), 5)
        stops[2].set()
        await asyncio.gather(first, third, return_exceptions=True)
        assert turns.count_running(LOUD) == 0


async def test_who_used_more_than_its_share_waits_while_the_loop_is_busy_and_others_are_active() -> None:
    moment = Time()
    activity = TenantActivity(moment)
    shares = LoopShares(activity, moment)
    for _ in range(20):  # two seconds, the whole processor
        activity.note_request(LOUD)
        moment.now += 0.1
        shares.pay(LOUD, 0.1)

    assert shares.count_wait(LOUD) == 0, "nobody else is there"
    activity.note_request(QUIET)
    assert shares.count_wait(LOUD) > 0.5
    assert shares.count_wait(QUIET) == 0
    moment.now += BUSY_WINDOW_SECONDS
    shares.pay(QUIET, 0.01)
    assert shares.count_wait(LOUD) > 0, "the loop is idle only because it waits"
    moment.now += MAX_DEBT_SECONDS / 0.4
    assert shares.count_wait(LOUD) == 0, "it has its share again"
    moment.now += 600
    shares.pay(TenantId(clock.new_id()), 0)
    assert shares.count_wait(LOUD) == 0
    assert MAX_CREDIT_SECONDS < 1


async def test_who_was_busy_alone_for_an_hour_waits_for_seconds_when_another_comes() -> None:
    moment = Time()
    activity = TenantActivity(moment)
    shares = LoopShares(activity, moment)
    for _ in range(36_000):
        activity.note_request(LOUD)
        moment.now += 0.1
        shares.pay(LOUD, 0.1)

    activity.note_request(QUIET)

    assert 0 < shares.count_wait(LOUD) <= MAX_DEBT_SECONDS / 0.4


async def test_of_the_tasks_of_a_tenant_that_wait_only_the_first_looks_at_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a thousand woke up at the same moment, whoever comes then would wait for all of them."""
    moment = Time()
    activity = TenantActivity(moment)
    shares = LoopShares(activity, moment)
    for _ in range(20):
        moment.now += 0.1
        shares.pay(LOUD, 0.1)
    activity.note_request(LOUD)
    activity.note_request(QUIET)
    waits: list[float] = []
    done: list[int] = []
    sleep = asyncio.sleep

    async def move_time(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)
        moment.now += seconds + 0.001
        activity.note_request(LOUD)
        activity.note_request(QUIET)

    async def compute(number: int) -> None:
        await shares.wait_for_share(LOUD)
        shares.pay(LOUD, 0.05)
        done.append(number)

    monkeypatch.setattr("bpc.api.access.loop_shares.asyncio.sleep", move_time)
    given_up = asyncio.create_task(compute(-1))
    tasks = [asyncio.create_task(compute(number)) for number in range(10)]
    await sleep(0)
    given_up.cancel()
    await asyncio.gather(*tasks)
    await asyncio.gather(given_up, return_exceptions=True)

    assert done == list(range(10)), "in the order in which they came"
    assert len(waits) <= 2 * len(tasks)
    await shares.wait_for_share(QUIET)


async def test_what_a_request_and_its_tasks_compute_is_paid_by_its_tenant() -> None:
    shares = LoopShares(TenantActivity())
    paid: list[tuple[Any, float]] = []
    shares.pay = lambda payer, seconds: paid.append((payer, seconds))  # type: ignore[method-assign]

    async def compute() -> int:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)
        await asyncio.sleep(0)
        return 1

    async def answer(meter: Any) -> int:
        done = await compute()
        meter.bill(LOUD)
        with pytest.raises(ValueError, match="inside"):
            await _raise_inside()
        return done + sum(await asyncio.gather(asyncio.create_task(compute()), compute()))

    install_meter(asyncio.get_running_loop())
    with shares.measure() as meter:
        assert await run_metered(answer(meter), meter) == 3

    assert {payer for payer, _ in paid} == {LOUD}
    assert sum(seconds for _, seconds in paid) > 0.005


async def _raise_inside() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, ValueError("inside"))
    await future


def test_an_address_that_failed_often_has_to_pause() -> None:
    moment = Time()
    limits, off = AddressLimits(10, moment), AddressLimits(0, moment)
    for _ in range(FAILURE_BURST):
        limits.require_attempt_left("10.0.0.1")
        limits.note_failure("10.0.0.1")
        off.note_failure("10.0.0.1")

    with pytest.raises(RateLimited):
        limits.require_attempt_left("10.0.0.1")
    off.require_attempt_left("10.0.0.1")
    limits.require_attempt_left("10.0.0.2")
    moment.now += 0.2
    limits.require_attempt_left("10.0.0.1")
    addresses = {
        "10.0.0.1": "10.0.0.1",
        "::ffff:10.0.0.1": "10.0.0.1",
        "2001:db8::1:2:3:4": "2001:db8::/64",
        "unix": "unix",
    }
    assert {host: find_address({"client": (host, 1)}) for host in addresses} == addresses
    assert find_address({}) == "unknown"


async def test_unknown_keys_are_refused_without_a_query_and_known_keys_of_the_same_address_pass(
    admin: Api, service: Service, http: httpx2.AsyncClient
) -> None:
    assert (await admin.get("/v1/documents")).status_code == 200
    stranger = Api(http, ApiKeySecret.generate(clock.random_bytes(40)).text)
    assert (await stranger.get("/v1/documents")).status_code == 401

    for _ in range(100 * FAILURE_BURST):
        service.admission.addresses.note_failure("127.0.0.1")

    assert (await stranger.get("/v1/documents")).status_code == 429
    assert (await admin.get("/v1/documents")).status_code == 200
    assert service.admission.turns.count_running(None) == 0


async def test_readers_of_public_pages_have_half_of_the_connections_and_one_address_a_quarter() -> None:
    admission, scope = Admission(8, failures_per_second=1), {"path": "/p/1", "client": ("10.0.0.1", 1)}
    scopes = [{**scope, "client": (f"10.0.0.{host}", 1)} for host in (1, 1, 2, 2)]
    async with AsyncExitStack() as stack:
        for each in scopes:
            async with asyncio.timeout(5):
                await stack.enter_async_context(admission.admit_reader(each, CpuMeter(lambda *_: None)))

        for path, host, is_admitted in [("/p/1", 1, False), ("/p/1", 3, False), ("/verify", 1, True)]:
            reader = admission.admit_reader({"path": path, "client": (f"10.0.0.{host}", 1)}, CpuMeter(lambda *_: None))
            waiting = asyncio.create_task(stack.enter_async_context(reader))
            await asyncio.wait({waiting}, timeout=0.05)
            assert waiting.done() is is_admitted, (path, host)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(5), admission.turns.take(LOUD):  # a tenant has its turn all the same
            pass
    async with asyncio.timeout(5), admission.admit_reader(scope, CpuMeter(lambda *_: None)):
        pass


async def test_a_tenant_has_so_many_requests_on_their_way(service: Service, tenant: TenantId) -> None:
    places = [service.admission.hold_place(tenant) for _ in range(MAX_IN_FLIGHT + 1)]
    for place in places[:-1]:
        place.__enter__()

    with pytest.raises(RateLimited), places[-1]:
        pass
    for place in places[:-1]:
        place.__exit__(None, None, None)
    with service.admission.hold_place(tenant):
        pass
    assert Admission(1, failures_per_second=1).turns.count_running(None) == 0


async def test_large_answers_are_counted_until_they_are_fetched_and_too_many_are_refused(
    admin: Api, service: Service, database: Database, tenant: TenantId
) -> None:
    content = clock.random_bytes(4 * LARGE_ANSWER_BYTES)
    async with database.tenant(tenant) as conn:
        version = await insert_document_version(conn, tenant, status="VALIDATED", content=content)
    path = f"/v1/document-versions/{version}/content"

    assert (await admin.get(path)).content == content
    assert service.answer_memory.count_taken() == 0
    service.answer_memory.take(tenant, 64_000_000)
    refused = await admin.get(path)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    same = await admin.get(path, headers={"If-None-Match": f'"{hashlib.sha256(content).hexdigest()}"'})
    assert same.status_code == 304, "nothing is read, so nothing is counted"
    service.answer_memory.release(tenant, 64_000_000)

    memory = TenantMemory(10)
    memory.take(LOUD, 9)  # larger than half, and alone
    with pytest.raises(RateLimited):
        memory.take(QUIET, 2)


async def test_what_is_beyond_the_quota_of_a_tenant_is_refused_and_its_use_is_shown(
    admin: Api, database: Database, tenant: TenantId, act: Act, superuser: Any
) -> None:
    path, headers = "/v1/documents/by-ref/A", {"Content-Type": "application/json"}
    upload: dict[str, Any] = {"params": {"kind": "OTHER"}, "headers": headers}
    assert (await admin.send("PUT", path, content=b'{"a":1}', **upload)).status_code == 201
    before = await admin.get_json("/v1/tenant/storage")
    assert (before["documents_bytes"], before["quota_bytes"]) == (7, None)

    async with database.system(tenant) as conn:
        await storage_quota.change_quota(conn, tenant, 10, act=act)
        await storage_quota.change_quota(conn, tenant, 10, act=act)
    refused = await admin.send("PUT", path, content=b'{"a":2}', **upload)

    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "STORAGE_QUOTA_EXCEEDED"
    assert refused.json()["error"]["details"] == {"used_bytes": 7, "added_bytes": 7, "quota_bytes": 10}
    assert (await admin.get_json("/v1/tenant/storage"))["quota_bytes"] == 10
    events = await superuser.fetchval("SELECT count(*) FROM events WHERE event_type = 'TENANT_QUOTA_CHANGED'")
    assert events == 1
    async with database.system(tenant) as conn:
        await storage_quota.change_quota(conn, tenant, None, act=act)
    assert (await admin.send("PUT", path, content=b'{"a":2}', **upload)).status_code == 201


async def test_a_read_whose_client_has_left_is_abandoned(admin: Api, service: Service, tenant: TenantId) -> None:
    """The next one in the line gets its turn."""
    async with service.heavy_slots.take(tenant):
        call = asyncio.create_task(admin.get("/v1/tenant/storage"))
        await wait_until(lambda: service.heavy_slots.count_waiting(tenant) == 2)
        call.cancel()
        await wait_until(lambda: service.heavy_slots.count_waiting(tenant) == 1)
