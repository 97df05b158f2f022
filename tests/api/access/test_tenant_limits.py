"""What takes long keeps nobody else waiting: it queues without a connection and computes in another process."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from bpc.api.app import create_app
from bpc.api.rule_check import Mistaken, read_rules
from bpc.api.serve import heavy_places
from bpc.api.service import Service
from bpc.api.shares import MOST_WAITING
from bpc.core.ids import TenantId
from bpc.core.rules.package import RulesRefused, checked_program
from bpc.jobs.processes import ChildDied
from tests.api.conftest import Api
from tests.jobs.working import until
from tests.measuring import allowed

CHECK = "/v1/rules:check"
SMALL = {"dsl_source": 'field battery.chemistry @public: Text = "LFP";\n'}
SLOW = {"dsl_source": "".join(f"field a{at}.b: Int = {'+'.join(['1'] * 60)};\n" for at in range(7_200))}
MISTAKEN = b'field a.b: Int = "one";\nfield a.c: Text = 2;\n'


@asynccontextmanager
async def all_taken(service: Service) -> AsyncIterator[None]:
    """Every connection of the pool is busy."""
    async with AsyncExitStack() as stack:
        for _ in range(service.database.pool.get_max_size()):
            await stack.enter_async_context(service.database.plain())
        yield


def _computing() -> int:
    return sum(child.name == "bpc-compute" for child in multiprocessing.active_children())


async def _quickly(answer: Any) -> httpx2.Response:
    async with asyncio.timeout(allowed(1)):
        found: httpx2.Response = await answer
    return found


async def test_others_are_answered_while_large_rules_are_checked(
    admin: Api, nobody: Api, service: Service, tenant: TenantId
) -> None:
    assert len(SLOW["dsl_source"]) > 1_000_000
    checks = [asyncio.create_task(admin.post(CHECK, SLOW)) for _ in range(6)]
    await until(lambda: service.heavy.waiting(tenant) == 6)

    for _ in range(10):
        assert (await _quickly(nobody.get("/v1/health/live"))).status_code == 200
        assert (await _quickly(nobody.get("/v1/health/ready"))).status_code == 200
        assert (await _quickly(admin.get("/v1/documents"))).status_code == 200

    assert not any(check.done() for check in checks)
    for check in checks:
        check.cancel()
    await asyncio.gather(*checks, return_exceptions=True)
    assert _computing() == 0
    assert (await admin.post(CHECK, SMALL)).json()["fields"][0]["field_path"] == "battery.chemistry"


async def test_whoever_waits_for_a_place_holds_no_connection(
    admin: Api, rival: Api, service: Service, tenant: TenantId
) -> None:
    async with service.heavy.of(tenant):
        waiting = [asyncio.create_task(admin.post(CHECK, SMALL)) for _ in range(MOST_WAITING + 4)]
        await until(lambda: sum(task.done() for task in waiting) == 5)

        assert service.database.pool.get_idle_size() == service.database.pool.get_size()
        assert (await rival.post(CHECK, SMALL)).status_code == 200, "another tenant has places of its own"

    answers = await asyncio.gather(*waiting)
    assert sorted(answer.status_code for answer in answers) == [200] * (MOST_WAITING - 1) + [429] * 5
    assert {answer.headers.get("retry-after") for answer in answers if answer.status_code == 429} == {"10"}


@pytest.mark.parametrize(("pool_size", "places"), [(1, 1), (2, 1), (4, 1), (5, 2), (10, 2), (100, 2)])
def test_what_takes_long_leaves_more_than_half_of_the_connections(pool_size: int, places: int) -> None:
    assert heavy_places(pool_size) == places


async def test_a_check_that_takes_too_long_is_ended(admin: Api, service: Service) -> None:
    settings = service.settings.model_copy(update={"request_timeout_seconds": 1})
    transport = httpx2.ASGITransport(app=create_app(replace(service, settings=settings)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
        answer = await Api(http, admin.key).post(CHECK, SLOW)

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "REQUEST_TIMEOUT")
    assert _computing() == 0


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
    read = read_rules(MISTAKEN, b"")
    assert read.refused is not None

    told = Mistaken(read.refused, read.diagnostics)

    with pytest.raises(RulesRefused) as refused:
        checked_program(MISTAKEN)
    here = refused.value
    assert (told.code, told.says, told.fix, told.details) == (here.code, here.says, here.fix, here.details)


@pytest.mark.parametrize("key", [None, "nonsense", "bpc_short_key"])
async def test_without_a_usable_key_nobody_takes_a_connection(service: Service, nobody: Api, key: str | None) -> None:
    stranger = Api(nobody.http, key)

    async with all_taken(service):
        for answer in (stranger.get("/v1/documents"), stranger.post(CHECK, SMALL), stranger.post("/v1/documents", {})):
            assert (await _quickly(answer)).status_code == 401


async def test_a_busy_pool_does_not_make_it_unready(service: Service, nobody: Api) -> None:
    async with all_taken(service):
        assert (await _quickly(nobody.get("/v1/health/ready"))).status_code == 200
