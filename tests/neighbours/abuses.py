"""Ten ways for a tenant or a stranger to take all of a process. Each is a coroutine that goes on until it is cancelled.

python -m tests.neighbours.abuses <order, as JSON>     # {"url", "keys" …, "name", "seconds"}; says what was answered
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from bpc.core.api_keys import ApiKeySecret
from bpc.runtime import clock

CONNECTIONS: Final = 16
HEAVY_QUERY: Final = """
    { documents(first: 200) { items { documentId kind name externalRef createdAt isActive
      versions(first: 20) { items { documentVersionId documentId version status mimeType sha256 uploadedAt } } } } }
"""
DEEP_JSON: Final = b'{"query": "{ passports { nextCursor } }", "variables": {"v": [%s]}}' % b",".join(
    [b"[" * 100 + b"]" * 100] * 4_500
)
BIG_RULES: Final = "".join(f"field a{at}.b @public: Int = {'+'.join(['1'] * 20)};\n" for at in range(6_000))


@dataclass(slots=True)
class Abuser:
    """A client that does one thing on many connections at once, and counts what it is answered."""

    url: str
    keys: Mapping[str, str]
    ids: Mapping[str, str]
    http: httpx2.AsyncClient
    answers: Counter[str] = field(default_factory=Counter)

    async def send(self, method: str, path: str, *, key: str = "loud", **options: Any) -> None:
        headers = {"Authorization": f"Bearer {self.keys.get(key, key)}", "Idempotency-Key": str(clock.new_id())}
        headers |= options.pop("headers", {})
        try:
            answer = await self.http.request(method, path, headers=headers, **options)
        except httpx2.TransportError as error:
            self.answers[type(error).__name__] += 1
        else:
            self.answers[str(answer.status_code)] += 1
            if answer.status_code == 429:
                await asyncio.sleep(0.05)  # less than it is told to wait

    async def repeat(self, call: Callable[[], Awaitable[None]]) -> None:
        async def go_on() -> None:
            while True:
                await call()

        await asyncio.gather(*(go_on() for _ in range(CONNECTIONS)))


async def query_heavily(abuser: Abuser) -> None:
    await abuser.repeat(lambda: abuser.send("POST", "/v1/graphql", json={"query": HEAVY_QUERY}))


async def leave_downloads_unread(abuser: Abuser) -> None:
    """Ask for a large file on each connection, and read nothing of it."""
    place = urlsplit(abuser.url)

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1024)
        path = f"/v1/document-versions/{abuser.ids['large_document']}/content"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {abuser.keys['loud']}\r\n\r\n"
        writer.write(head.encode())
        with suppress(OSError, asyncio.IncompleteReadError):
            abuser.answers[(await reader.readline()).split(b" ")[1].decode()] += 1
            await asyncio.sleep(5)
        writer.close()

    await abuser.repeat(ask)


async def send_deep_json(abuser: Abuser) -> None:
    headers = {"Content-Type": "application/json"}
    await abuser.repeat(lambda: abuser.send("POST", "/v1/graphql", content=DEEP_JSON, headers=headers))


async def verify_audit(abuser: Abuser) -> None:
    await abuser.repeat(lambda: abuser.send("GET", "/v1/audit/verify"))


async def send_big_rules(abuser: Abuser) -> None:
    await abuser.repeat(lambda: abuser.send("POST", "/v1/rules:check", json={"dsl_source": BIG_RULES}))


async def run_bulk_compiles(abuser: Abuser) -> None:
    body = {"rule_package_version_id": abuser.ids["rules"], "force": True}
    items = [{"sku": f"SKU-{number}", "name": "Battery"} for number in range(int(abuser.ids["products"]))]
    while True:
        await abuser.send("POST", "/v1/passports:bulk-compile", json={**body, "items": items})
        await asyncio.sleep(1)


async def upload_files(abuser: Abuser) -> None:
    async def upload() -> None:
        headers = {"Content-Type": "application/octet-stream", "Content-Disposition": 'attachment; filename="a.bin"'}
        content = clock.random_bytes(3_000_000)
        path = f"/v1/documents/by-ref/{clock.new_id()}"
        await abuser.send("PUT", path, content=content, headers=headers, params={"kind": "OTHER"})

    await abuser.repeat(upload)


async def call_denied(abuser: Abuser) -> None:
    await abuser.repeat(lambda: abuser.send("GET", "/v1/documents", key="auditor"))


async def try_unknown_keys(abuser: Abuser) -> None:
    async def call() -> None:
        await abuser.send("GET", "/v1/documents", key=ApiKeySecret.generate(clock.random_bytes(40)).text)

    await abuser.repeat(call)


async def connect_slowly(abuser: Abuser) -> None:
    """Keep many connections open: some send a head byte by byte, some a body."""
    place = urlsplit(abuser.url)
    head = f"POST /v1/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {abuser.keys['loud']}\r\n"
    body_head = f"{head}Content-Type: application/json\r\nIdempotency-Key: a\r\nContent-Length: 100000\r\n\r\n"

    async def drip(number: int) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(place.hostname, place.port)
                text = body_head + " " * 1000 if number % 2 else head + "X: y\r\n" * 1000
                for start in range(0, len(text), 4):
                    writer.write(text[start : start + 4].encode())
                    await writer.drain()
                    await asyncio.sleep(0.1)
                writer.close()

    await asyncio.gather(*(drip(number) for number in range(20 * CONNECTIONS)))


ABUSES: Final[Mapping[str, Callable[[Abuser], Awaitable[None]]]] = {
    "heavy GraphQL": query_heavily,
    "unread downloads": leave_downloads_unread,
    "deep JSON": send_deep_json,
    "audit verify": verify_audit,
    "big rules": send_big_rules,
    "bulk run": run_bulk_compiles,
    "uploads": upload_files,
    "denied calls": call_denied,
    "unknown keys": try_unknown_keys,
    "slow clients": connect_slowly,
}


async def _abuse(order: Mapping[str, Any]) -> None:
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx2.AsyncClient(base_url=order["url"], limits=limits, timeout=60) as http:
        abuser = Abuser(order["url"], order["keys"], order["ids"], http)
        sys.stdout.write("{}\n")  # it begins now: starting this program may take long on a busy machine
        sys.stdout.flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(order["seconds"]):
                await ABUSES[order["name"]](abuser)
        sys.stdout.write(json.dumps(dict(abuser.answers)) + "\n")


if __name__ == "__main__":
    os.nice(10)  # clients have machines of their own: they must not take the server's processor
    asyncio.run(_abuse(json.loads(sys.argv[1])))
