"""What takes long keeps nobody else waiting: it queues without a connection and computes in another process."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from service_jobs.processes import ChildDied
from tests.jobs.support.run_workers import wait_until

from bpc.api.access.tenant_limits import MAX_WAITING
from bpc.api.http.app import create_app
from bpc.api.http.child_compute import RulesInvalid
from bpc.api.http.request_context import Service
from bpc.api.http.server import count_heavy_slots
from bpc.core.formats.ids import TenantId
from bpc.core.language.check_result import check_rule_sources
from bpc.core.language.package import RulesRefused, read_program
from bpc.runtime import clock
from tests.api.conftest import Api
from tests.measurements import allow_seconds

CHECK = "/v1/rules:check"
SMALL = {"dsl_source": 'field battery.chemistry @public: Text = "LFP";\n'}
SLOW = {"dsl_source": "".join(f"field a{at}.b: Int = {'+'.join(['1'] * 60)};\n" for at in range(7_200))}
MISTAKEN = b'field a.b: Int = "one";\nfield a.c: Text = 2;\n'


@asynccontextmanager
async def hold_all_connections(service: Service) -> AsyncIterator[None]:
    """Every connection of the pool is busy."""
    async with AsyncExitStack() as stack:
        for _ in range(service.database.pool.get_max_size()):
            await stack.enter_async_context(service.database.plain())
        yield


async def _count_children(service: Service) -> int:
    """Count the child processes, without the idle one that has read the large bodies."""
    await service.parsers.close()
    return sum(child.name == "jobs-compute" for child in multiprocessing.active_children())


async def _answer_quickly(answer: Any) -> httpx2.Response:
    async with asyncio.timeout(allow_seconds(1)):
        response: httpx2.Response = await answer
    return response


async def test_others_are_answered_while_large_rules_are_checked(
    admin: Api, anonymous: Api, service: Service, tenant: TenantId
) -> None:
    assert len(SLOW["dsl_source"]) > 1_000_000
    checks = [asyncio.create_task(admin.post(CHECK, SLOW)) for _ in range(6)]
    await wait_until(lambda: service.heavy_slots.count_waiting(tenant) == 6)

    for _ in range(10):
        assert (await _answer_quickly(anonymous.get("/v1/health/live"))).status_code == 200
        assert (await _answer_quickly(anonymous.get("/v1/health/ready"))).status_code == 200
        assert (await _answer_quickly(admin.get("/v1/documents"))).status_code == 200

    assert not any(check.done() for check in checks)
    for check in checks:
        check.cancel()
    await asyncio.gather(*checks, return_exceptions=True)
    assert await _count_children(service) == 0
    assert (await admin.post(CHECK, SMALL)).json()["fields"][0]["field_path"] == "battery.chemistry"


async def test_whoever_waits_for_a_place_holds_no_connection(
    admin: Api, other_admin: Api, service: Service, tenant: TenantId
) -> None:
    async with service.heavy_slots.take(tenant):
        waiting = [asyncio.create_task(admin.post(CHECK, SMALL)) for _ in range(MAX_WAITING + 4)]
        await wait_until(lambda: sum(task.done() for task in waiting) == 5)

        assert service.database.pool.get_idle_size() == service.database.pool.get_size()
        assert (await other_admin.post(CHECK, SMALL)).status_code == 200, "another tenant has places of its own"

    answers = await asyncio.gather(*waiting)
    assert sorted(answer.status_code for answer in answers) == [200] * (MAX_WAITING - 1) + [429] * 5
    assert {answer.headers.get("retry-after") for answer in answers if answer.status_code == 429} == {"10"}


async def test_what_is_known_of_a_product_is_collected_in_a_slot_and_holds_no_connection_before(
    admin: Api, service: Service, tenant: TenantId
) -> None:
    decision = {"sku": "A-1", "fact_type": "Battery", "fact_key": "battery:A-1", "member": "mass_kg"}
    escaped = b'{"\\u0073ku": "A-1"}'
    async with service.heavy_slots.take(tenant):
        waiting = [
            asyncio.create_task(answer)
            for answer in (
                admin.get("/v1/conflicts", params={"sku": "A-1"}),
                admin.post("/v1/conflicts:resolve", {**decision, "document_id": str(clock.new_id()), "reason": "r"}),
                admin.post("/v1/snapshots", {"sku": "A-1"}),
                admin.send("POST", "/v1/snapshots", content=escaped, headers={"Content-Type": "application/json"}),
                admin.post("/v1/passports:check", {"skus": ["A-1"]}),
                admin.post("/v1/passports:what-if", {"skus": ["A-1"]}),
            )
        ]
        await wait_until(lambda: service.heavy_slots.count_waiting(tenant) == 1 + len(waiting))

        assert service.database.pool.get_idle_size() == service.database.pool.get_size()
        assert (await _answer_quickly(admin.post("/v1/snapshots", {"label": "empty"}))).status_code == 201

    answers = await asyncio.gather(*waiting)
    assert [answer.status_code for answer in answers][:4] == [200, 404, 409, 409]


@pytest.mark.parametrize(("pool_size", "places"), [(1, 1), (2, 1), (4, 1), (5, 2), (10, 2), (100, 2)])
def test_what_takes_long_leaves_more_than_half_of_the_connections(pool_size: int, places: int) -> None:
    assert count_heavy_slots(pool_size) == places


async def test_a_check_that_takes_too_long_is_ended(admin: Api, service: Service) -> None:
    settings = service.settings.model_copy(update={"request_timeout_seconds": 1})
    transport = httpx2.ASGITransport(app=create_app(replace(service, settings=settings)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
        answer = await Api(http, admin.key).post(CHECK, SLOW)

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "REQUEST_TIMEOUT")
    assert await _count_children(service) == 0


@pytest.mark.parametrize("why", [OSError("no more processes"), ChildDied(1)])
async def test_without_a_child_process_a_thread_checks(
    admin: Api, service: Service, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    async def refuse(*_: object) -> None:
        raise why

    monkeypatch.setattr(service.processes, "run", refuse)

    assert (await admin.post(CHECK, SMALL)).json()["diagnostics"] == []


async def test_what_killed_a_child_process_is_not_tried_in_this_one(
    admin: Api, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise ChildDied(-9)

    monkeypatch.setattr(service.processes, "run", die)

    answer = await admin.post(CHECK, SMALL)

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")


def test_mistakes_are_told_as_if_they_had_been_found_here() -> None:
    read = check_rule_sources(MISTAKEN, b"")
    assert read.refusal is not None

    refusal = RulesInvalid(read.refusal, read.diagnostics)

    with pytest.raises(RulesRefused) as refused:
        read_program(MISTAKEN)
    here = refused.value
    assert (refusal.code, refusal.says, refusal.fix, refusal.details) == (here.code, here.says, here.fix, here.details)


@pytest.mark.parametrize("key", [None, "nonsense", "bpc_short_key"])
async def test_without_a_usable_key_nobody_takes_a_connection(
    service: Service, anonymous: Api, key: str | None
) -> None:
    stranger = Api(anonymous.http, key)

    async with hold_all_connections(service):
        for answer in (stranger.get("/v1/documents"), stranger.post(CHECK, SMALL), stranger.post("/v1/documents", {})):
            assert (await _answer_quickly(answer)).status_code == 401


async def test_a_busy_pool_does_not_make_it_unready(service: Service, anonymous: Api) -> None:
    async with hold_all_connections(service):
        assert (await _answer_quickly(anonymous.get("/v1/health/ready"))).status_code == 200
