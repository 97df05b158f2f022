"""The API on a real socket: clients that are slow, that lie, that leave, and a server that stops in good order."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import uvicorn
from tests.jobs.support.run_workers import wait_until

from bpc.api.http.request_context import Service
from bpc.api.http.server import CannotListen, ConnectionTimeouts, listen, open_service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.event_loop import loop_factory
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.connection import Connection
from bpc.storage.database import Database, open_database
from tests.api.conftest import KEY_ID, PEPPERS, create_key
from tests.api.http.raw_connection import HOST, RawConnection, open_connection

SHORT = ConnectionTimeouts(head=0.3, idle=1, fetching=0.3)
GET = b"GET /v1/health/live HTTP/1.1\r\nHost: bpc.test\r\n"


@pytest.fixture
async def port(service: Service) -> AsyncIterator[int]:
    async with listen(service, HOST, 0, timeouts=SHORT) as bound:
        yield bound


@pytest.fixture
async def short_timeout_port(service: Service) -> AsyncIterator[int]:
    """Of a server that gives a request one second."""
    settings = service.settings.model_copy(update={"request_timeout_seconds": 1})
    async with listen(replace(service, settings=settings), HOST, 0, timeouts=SHORT) as bound:
        yield bound


@pytest.fixture
async def key(service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    return await create_key(database, tenant, "Admin", act)


def _make_post(key: str, body: bytes, *, length: int | None = None) -> bytes:
    return (
        f"POST /v1/documents HTTP/1.1\r\nHost: bpc.test\r\nAuthorization: Bearer {key}\r\n"
        f"Idempotency-Key: {clock.new_id()}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode() + body


WAITS = """SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database AND datname = current_database()
            WHERE NOT granted AND relation = 'documents'::regclass)"""  # who waits elsewhere is not our request


async def _wait_for_lock(superuser: Connection) -> None:
    async with asyncio.timeout(60):
        while not await superuser.fetchval(WAITS):
            await asyncio.sleep(0.01)


async def _count_documents(superuser: Connection) -> int:
    return int(await superuser.fetchval("SELECT count(*) FROM documents"))


async def test_it_answers_on_the_port_it_was_given_and_says_nothing_of_what_it_is(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=60) as http:
        answer = await http.get("/v1/health/live")

    assert answer.json() == {"status": "OK"}
    assert "server" not in answer.headers


async def test_a_head_request_has_the_headers_of_its_answer_and_no_body(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=60) as http:
        answer = await http.get("/v1/openapi.json")

        head = await http.head("/v1/openapi.json")

        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]
        assert (await http.head("/v1/nothing")).status_code == 404


async def test_an_address_that_is_taken_is_refused_before_anything_starts(service: Service, port: int) -> None:
    with pytest.raises(CannotListen, match=str(port)):
        async with listen(service, HOST, port):
            pass


NOT_HTTP = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"BREW /v1/health/live HTTP/1.1\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
]
STRANGE = [
    (b"*", 404),
    (b"/v1/documents/%00", 401),
    (b"/v1/documents/a%2Fb", 404),
    (b"/v1/documents/%ff%fe", 401),
    (b"//v1/documents", 404),
    (b"/v1/../v1/documents", 404),
    (b"/v1/documents/", 404),
    (b"/v1/health/live?a=%ff%00%zz", 422),
    (b"/v1/health/live?" + b"a&" * 500, 422),
    (b"http://elsewhere.example/v1/health/live", 200),
    (b"/" + b"a" * 20_000, 404),
]


async def test_what_is_not_http_is_refused_in_our_words_and_the_line_is_closed(port: int) -> None:
    for sent in NOT_HTTP:
        async with open_connection(port) as client:
            await client.send(sent)

            assert await client.refusal(400) == "BAD_REQUEST"
            assert await client.is_closed()


async def test_strange_targets_are_answered_like_any_other(port: int) -> None:
    for target, status in STRANGE:
        async with open_connection(port) as client:
            await client.send(b"GET " + target + b" HTTP/1.1\r\nHost: bpc.test\r\n\r\n")

            status_line, headers, _ = await client.answer()

            assert (target, status_line) == (target, status)
            assert "x-correlation-id" in headers


async def test_a_head_that_is_too_large_is_refused_whether_it_ends_or_not(port: int) -> None:
    async with open_connection(port) as client:
        await client.send(GET + b"X-Large: " + b"a" * 40_000 + b"\r\n\r\n")

        assert await client.refusal(431) == "HEADERS_TOO_LARGE"
    async with open_connection(port) as client:
        await client.send(GET + b"X-Large: ")
        while not client.reader.at_eof() and not client.reader._buffer:  # type: ignore[attr-defined]
            await client.send(b"a" * 10_000)
            await asyncio.sleep(0)

        assert await client.refusal(431) == "HEADERS_TOO_LARGE"


async def test_a_head_that_trickles_is_cut_off_however_busy_it_looks(port: int) -> None:
    async with open_connection(port) as client:
        await client.send(b"GET /v1/health/live HTTP/1.1\r\n")
        trickle = asyncio.create_task(_trickle(client, b"X: a\r\n"))

        assert await client.refusal(408) == "HEADERS_TIMEOUT"
        assert await client.is_closed()
        trickle.cancel()


async def _trickle(client: RawConnection, piece: bytes) -> None:
    try:
        while True:
            await client.send(piece)
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
async def test_a_line_on_which_nothing_is_asked_is_closed(port: int, sent: bytes) -> None:
    async with open_connection(port) as client:
        await client.send(sent)

        assert await client.is_closed()


async def test_empty_lines_after_an_answer_do_not_keep_the_line_open(port: int) -> None:
    async with open_connection(port) as client:
        await client.send(GET + b"\r\n")
        assert (await client.answer())[0] == 200
        trickle = asyncio.create_task(_trickle(client, b"\r\n"))

        assert await client.is_closed()
        trickle.cancel()


async def test_a_body_that_trickles_ends_with_the_time_of_the_request(
    short_timeout_port: int, key: str, service: Service, superuser: Connection
) -> None:
    async with open_connection(short_timeout_port) as client:
        await client.send(_make_post(key, b'{"kind":', length=1000))
        trickle = asyncio.create_task(_trickle(client, b" "))

        assert await client.refusal(503) == "REQUEST_TIMEOUT"
        assert await client.is_closed()
        trickle.cancel()
    assert await _count_documents(superuser) == 0
    assert _is_idle(service)


async def test_the_rest_of_a_refused_body_is_read_for_a_while_and_then_no_more(port: int) -> None:
    async with open_connection(port) as client:
        await client.send(_make_post("wrong", b"", length=1_000_000))
        assert await client.refusal(401) == "UNAUTHORIZED"
        trickle = asyncio.create_task(_trickle(client, b" "))

        assert await client.is_closed()
        trickle.cancel()


async def test_after_a_refused_body_the_line_can_be_used_again(port: int) -> None:
    async with open_connection(port) as client:
        await client.send(_make_post("wrong", b"x" * 100_000))
        assert await client.refusal(401) == "UNAUTHORIZED"

        await client.send(GET + b"\r\n")

        assert (await client.answer())[0] == 200


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing_behind(
    port: int, key: str, service: Service, superuser: Connection
) -> None:
    async with open_connection(port) as client:
        await client.send(_make_post(key, b'{"kind":', length=1000))

    await wait_until(lambda: _read_count(service, "POST", "/v1/documents", "499") == 1)
    assert _is_idle(service)
    assert await _count_documents(superuser) == 0


async def test_a_client_that_leaves_before_its_answer_does_not_stop_what_it_asked_for(
    port: int, key: str, service: Service, superuser: Connection
) -> None:
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
        async with open_connection(port) as client:
            await client.send(_make_post(key, b'{"kind":"BOM"}'))
            await _wait_for_lock(superuser)

    await wait_until(lambda: _read_count(service, "POST", "/v1/documents", "201") == 1)
    assert _is_idle(service)
    assert await _count_documents(superuser) == 1


async def test_a_request_that_takes_too_long_is_answered_and_changes_nothing(
    short_timeout_port: int, key: str, service: Service, superuser: Connection
) -> None:
    async with open_connection(short_timeout_port) as client:
        async with superuser.transaction():
            await superuser.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
            await client.send(_make_post(key, b'{"kind":"BOM"}'))

            assert await client.refusal(503) == "REQUEST_TIMEOUT"

        assert await client.is_closed()
    await wait_until(lambda: _is_idle(service))
    assert await _count_documents(superuser) == 0


async def test_a_client_that_does_not_fetch_its_answer_is_cut_off(port: int) -> None:
    _, writer = await asyncio.open_connection(HOST, port)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(20):
        writer.write(b"GET /v1/docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: bpc.test\r\n\r\n")

    async with asyncio.timeout(60):
        while not writer.transport.is_closing():
            writer.write(b"\r\n")
            await asyncio.sleep(0.02)

    writer.close()


async def test_a_request_that_runs_when_the_server_stops_is_still_answered(
    service: Service, key: str, superuser: Connection
) -> None:
    stop, stopping = asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with listen(service, HOST, 0) as port:
            ports.set_result(port)
            await stop.wait()
            stopping.set()

    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving_it = asyncio.create_task(serve())
    async with open_connection(await ports) as idle, open_connection(await ports) as client:
        async with superuser.transaction():
            await superuser.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
            await client.send(_make_post(key, b'{"kind":"BOM"}'))
            await _wait_for_lock(superuser)
            stop.set()
            await stopping.wait()
            assert await idle.is_closed()

        status, headers, _ = await client.answer()
        assert (status, headers["connection"]) == (201, "close")
    await serving_it


async def test_a_request_that_is_sent_just_when_the_server_stops_is_still_answered_and_is_the_last(
    service: Service,
) -> None:
    stop = asyncio.Event()

    async def serve() -> None:
        async with listen(service, HOST, 0, timeouts=ConnectionTimeouts(leaving=60)) as port:
            ports.set_result(port)
            await stop.wait()

    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving_it = asyncio.create_task(serve())
    async with (
        open_connection(await ports) as used,
        open_connection(await ports) as new,
        open_connection(await ports) as half,
    ):
        await used.send(GET + b"\r\n")
        assert (await used.answer())[0] == 200
        await half.send(GET)
        stop.set()
        await _wait_until_refused(await ports)

        for client, rest in ((used, GET + b"\r\n"), (new, GET + b"\r\n"), (half, b"\r\n")):
            await client.send(rest)
            status, headers, _ = await client.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert await client.is_closed()
    await serving_it


async def _wait_until_refused(port: int) -> None:
    """Return when nobody listens there any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:  # refused, or reset where it was about to be accepted
            return
        writer.close()
        await asyncio.sleep(0.01)


def test_it_runs_on_the_loop_that_production_uses(tmp_path: Path, address: Address, template_name: str) -> None:
    async def served() -> int:
        database = await open_database(address, pool_size=2)
        settings = Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID)
        async with open_service(settings, database, peppers=PEPPERS, key_ring=KeyRing({})) as service:
            async with listen(service, HOST, 0, timeouts=SHORT) as port, open_connection(port) as client:
                await client.send(GET + b"X: ")
                await client.refusal(408)
            async with listen(service, HOST, 0) as port, httpx2.AsyncClient(timeout=60) as http:
                answer = await http.get(f"http://{HOST}:{port}/v1/health/ready")
        await database.close()
        return answer.status_code

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert type(runner.get_loop()).__module__.startswith("uvloop")
        assert runner.run(served()) == 200


async def test_that_it_no_longer_answers_is_made_known_and_leaving_says_why(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks, ended = asyncio.Event(), asyncio.Event()

    async def break_down(server: uvicorn.Server) -> None:
        await breaks.wait()
        server.servers[0].close()
        raise RuntimeError("broken")

    monkeypatch.setattr(uvicorn.Server, "main_loop", break_down)

    with pytest.raises(RuntimeError, match="broken"):
        async with listen(service, HOST, 0, on_end=ended.set), asyncio.timeout(60):
            assert not ended.is_set()
            breaks.set()
            await ended.wait()


def _read_count(service: Service, method: str, path: str, status: str) -> float:
    labels = {"method": method, "path": path, "status": status}
    return service.metrics.registry.get_sample_value("bpc_http_requests_total", labels) or 0.0


def _is_idle(service: Service) -> bool:
    pool = service.database.pool
    return pool.get_size() == pool.get_idle_size()
