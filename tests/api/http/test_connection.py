"""Clients that offer another protocol, as the HTTP client of Java does with HTTP/2: they are answered in HTTP/1.1."""

import json
from collections.abc import AsyncIterator

import pytest

from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import create_key
from tests.api.http.raw_connection import HOST, RawConnection, open_connection

GET = b"GET /v1/health/live HTTP/1.1\r\nHost: bpc.test\r\n"
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
BODY = json.dumps({"kind": "BOM", "name": "é" * 100}).encode()


@pytest.fixture
async def client(service: Service) -> AsyncIterator[RawConnection]:
    async with listen(service, HOST, 0) as port, open_connection(port) as opened:
        yield opened


@pytest.fixture
async def head(database: Database, tenant: TenantId, act: Act) -> bytes:
    """The head of a request that offers another protocol and has a body."""
    key = await create_key(database, tenant, "Admin", act)
    return (
        b"POST /v1/documents HTTP/1.1\r\nHost: bpc.test\r\n"
        + f"Authorization: Bearer {key}\r\nIdempotency-Key: {clock.new_id()}\r\n".encode()
        + f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n".encode()
        + OFFER
        + b"\r\n"
    )


async def get_live(client: RawConnection, *, offer: bytes = b"") -> bytes:
    await client.send(GET + offer + b"\r\n")
    status, headers, body = await client.answer()
    assert (status, "upgrade" in headers) == (200, False)
    return body


async def test_a_request_without_a_body_is_answered_and_the_connection_goes_on(client: RawConnection) -> None:
    for offer in (OFFER, b"", OFFER, b"Connection: upgrade\r\nUpgrade: websocket\r\n", b""):
        assert json.loads(await get_live(client, offer=offer)) == {"status": "OK"}


@pytest.mark.parametrize("piece", [1, 7, 64, 10_000])
async def test_a_body_is_read_however_it_arrives(client: RawConnection, head: bytes, piece: int) -> None:
    sent = head + BODY
    for start in range(0, len(sent), piece):
        await client.send(sent[start : start + piece])

    status, _, body = await client.answer()

    assert (status, json.loads(body)["kind"]) == (201, "BOM")
    assert json.loads(await get_live(client)) == {"status": "OK"}


async def test_a_body_in_chunks_is_read(client: RawConnection, head: bytes) -> None:
    length = f"Content-Length: {len(BODY)}".encode()
    chunks = f"{len(BODY):x}\r\n".encode() + BODY + b"\r\n0\r\n\r\n"

    await client.send(head.replace(length, b"Transfer-Encoding: chunked") + chunks)

    assert (await client.answer())[0] == 201


async def test_requests_that_are_sent_at_once_are_answered_in_their_order(client: RawConnection, head: bytes) -> None:
    await client.send(head + BODY + GET + OFFER + b"\r\n" + GET + b"\r\n")

    statuses = [(await client.answer())[0] for _ in range(3)]

    assert statuses == [201, 200, 200]


async def test_a_connection_that_is_to_be_closed_is_closed(client: RawConnection) -> None:
    await client.send(GET + b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n")

    assert (await client.answer())[0] == 200
    assert await client.is_closed()


async def test_a_tunnel_is_refused(client: RawConnection) -> None:
    await client.send(b"CONNECT bpc.test:443 HTTP/1.1\r\nHost: bpc.test\r\n\r\n")

    assert (await client.answer())[0] in {400, 404, 405}
