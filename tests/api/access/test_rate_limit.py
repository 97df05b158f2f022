"""The rate limit: a bucket of tokens per key in the database, one statement per request, none where it is off."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.connection import Connection
from bpc.storage.database import Database, open_database
from tests.api.conftest import KEY_ID, PEPPERS, Api, create_key
from tests.measurements import RecordMeasurement, choose_effort

BURST, RATE = 50, 5


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        env="test",
        data_dir=tmp_path,
        signing_key_id=KEY_ID,
        rate_limit_enabled=True,
        rate_limit_burst=BURST,
        rate_limit_rps=RATE,
    )


async def _drain_bucket(api: Api) -> httpx2.Response:
    """Ask until it is refused: that answer."""
    for _ in range(20 * BURST):
        answer = await api.get("/v1/documents")
        if answer.status_code != 200:
            return answer
    raise AssertionError("it was never refused")


async def _refill(superuser: Connection, seconds: float) -> None:
    """As if so much time had passed."""
    await superuser.execute(
        "UPDATE rate_limit_buckets SET updated_at = updated_at - make_interval(secs => $1)", seconds
    )


async def test_a_burst_passes_and_then_it_is_429_with_the_time_to_wait(admin: Api, service: Service) -> None:
    first = await admin.get("/v1/documents")

    refused = await _drain_bucket(admin)

    assert (first.headers["ratelimit-limit"], first.headers["ratelimit-remaining"]) == ("50", "49")
    assert first.headers["ratelimit-reset"] == "1"
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "RATE_LIMITED"
    assert (refused.headers["retry-after"], refused.headers["ratelimit-remaining"]) == ("1", "0")
    assert refused.headers["ratelimit-reset"] == str(BURST // RATE)
    assert refused.json()["error"]["details"] == {"retry_after": 1}
    assert service.metrics.registry.get_sample_value("bpc_rate_limited_total") == 1


async def test_tokens_come_back_with_time_and_never_more_than_the_burst(
    admin: Api, service: Service, superuser: Connection
) -> None:
    await _drain_bucket(admin)

    await _refill(superuser, 3)
    after = await admin.get("/v1/documents")
    await _refill(superuser, 3600)
    service.rate_slices.clear()  # as after a second
    long_after = await admin.get("/v1/documents")

    assert after.status_code == 200
    assert 3 * RATE - 2 <= int(after.headers["ratelimit-remaining"]) < BURST
    assert long_after.headers["ratelimit-remaining"] == str(BURST - 1)


async def test_keys_do_not_share_a_bucket(admin: Api, officer: Api, other_admin: Api) -> None:
    await _drain_bucket(admin)

    for other in (officer, other_admin):
        assert (await other.get("/v1/documents")).headers["ratelimit-remaining"] == str(BURST - 1)


async def test_who_has_no_key_takes_no_token(anonymous: Api, superuser: Connection) -> None:
    assert (await anonymous.get("/v1/documents")).status_code == 401
    assert await superuser.fetchval("SELECT count(*) FROM rate_limit_buckets") == 0


async def test_two_hundred_at_once_over_two_processes_pass_no_more_than_the_bucket_holds(
    service: Service, database: Database, tenant: TenantId, act: Act, record_measurement: RecordMeasurement
) -> None:
    request_count = choose_effort(test=200, shown=200, campaign=2000)
    key = await create_key(database, tenant, "Admin", act)
    other_pool = await open_database(database.address, pool_size=5)
    async with open_service(service.settings, other_pool, peppers=PEPPERS, key_ring=KeyRing({})) as other:
        apis = [Api(_open_client(one), key) for one in (service, other)]
        await asyncio.gather(*(api.http.get("/v1/health/live") for api in apis))
        started = time.monotonic()

        answers = await asyncio.gather(*(apis[turn % 2].get("/v1/documents") for turn in range(request_count)))

        seconds = time.monotonic() - started
        await asyncio.gather(*(api.http.aclose() for api in apis))
    await other_pool.close()
    passed = Counter(answer.status_code for answer in answers)
    assert set(passed) == {200, 429}
    # Tokens that one process took and did not give within a second are lost.
    assert BURST // 2 <= passed[200] <= BURST + RATE * seconds + 1
    record_measurement(
        "rate-limit", asked=request_count, passed=passed[200], burst=BURST, rate=RATE, seconds=round(seconds, 3)
    )


def _open_client(service: Service) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(service)), base_url="http://bpc.test")


@pytest.mark.parametrize(("enabled", "statements"), [(True, 1), (False, 0)])
async def test_it_takes_one_statement_and_none_where_it_is_off(
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    enabled: bool,
    statements: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = await create_key(database, tenant, "Admin", act)
    object.__setattr__(service, "settings", service.settings.model_copy(update={"rate_limit_enabled": enabled}))
    sent_statements: list[str] = []
    fetchrow = asyncpg.Connection.fetchrow

    async def noted(conn: Any, query: str, *arguments: Any, **how: Any) -> Any:
        sent_statements.append(query)
        return await fetchrow(conn, query, *arguments, **how)

    monkeypatch.setattr(asyncpg.Connection, "fetchrow", noted)

    async with _open_client(service) as http:
        answer = await Api(http, key).get("/v1/documents")

    assert answer.status_code == 200
    assert len([query for query in sent_statements if "take_tokens" in query]) == statements
    assert ("ratelimit-limit" in answer.headers) == enabled
