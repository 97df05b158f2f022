"""A load: clients that never stop asking and never ask twice for what failed. Whatever is not answered well is kept.

    reader      one passport, over and over, on a connection that stays open
    pager       a whole list by its cursors, over and over, likewise; every round must find the same rows
    writer      new documents, each sent twice under one Idempotency-Key; the second answer must be the first
    compiler    new versions of a passport, which workers compile and sign

The last two connect anew for every request.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from uuid import UUID

import httpx2

from bpc.runtime import clock
from tests.journey.compile_ready import CompileReady
from tests.measurements import choose_effort

Client = Literal["reader", "pager", "writer", "compiler"]
CLIENTS: tuple[Client, ...] = get_args(Client)
PAGE = 2
# Seconds between two requests of the reader, the pager, the writer and the compiler: a load, not a flood. What is
# measured is whether anything fails, and beside other tests it must leave them something.
PAUSES = choose_effort(test=(0.1, 0.05, 0.1, 0.3), shown=(0.005, 0.005, 0.01, 0.1), campaign=(0.005, 0.005, 0.01, 0.1))


@dataclass(slots=True)
class Load:
    """What was asked so far, and what became of it."""

    url: str
    about: CompileReady
    answered: Counter[Client] = field(default_factory=Counter)  # for each client; also what was not answered well
    failed: list[str] = field(default_factory=list)
    versions: list[UUID] = field(default_factory=list)
    rounds: int = 0  # of the pager

    @property
    def requests(self) -> int:
        return self.answered.total()

    async def wait_for_requests(self, more: int) -> None:
        """Return when `more` requests were answered from now on, and a whole round of the list was read.

        Each client has asked since: the second answer that it gets is to what it asked after now.
        """
        before, rounds = self.answered.copy(), self.rounds + 2
        while not self.failed:
            since = {client: self.answered[client] - before[client] for client in CLIENTS}
            if sum(since.values()) >= more and min(since.values()) >= 2 and self.rounds >= rounds:
                return
            await asyncio.sleep(0.02)

    async def read(self, client: httpx2.AsyncClient) -> None:
        await self._ask("reader", client, "GET", f"/v1/passports/{self.about.passport_id}")

    async def page(self, client: httpx2.AsyncClient) -> None:
        fact_ids: list[UUID] = []
        cursor: str | None = None
        while True:
            parameters = {"limit": str(PAGE)} | ({} if cursor is None else {"cursor": cursor})
            page = await self._ask("pager", client, "GET", "/v1/facts", params=parameters)
            if page is None:
                return
            fact_ids += [UUID(item["fact_id"]) for item in page["items"]]
            await asyncio.sleep(PAUSES[1])
            cursor = page["next_cursor"]
            if cursor is None:
                break
        self.rounds += 1
        if tuple(fact_ids) != self.about.facts:
            self.failed.append(f"the list has {len(fact_ids)} rows, not {len(self.about.facts)}, or others")

    async def write(self, client: httpx2.AsyncClient) -> None:
        headers = {"Idempotency-Key": str(clock.new_id())}
        what = {"json": {"kind": "BOM"}, "headers": headers}
        first, second = [await self._ask("writer", client, "POST", "/v1/documents", **what) for _ in range(2)]
        if first != second:
            self.failed.append("one Idempotency-Key had two answers")

    async def compile(self, client: httpx2.AsyncClient) -> None:
        body = {
            "snapshot_id": str(self.about.snapshot_id),
            "rule_package_version_id": str(self.about.rule_package_version_id),
        }
        headers = {"Idempotency-Key": str(clock.new_id())}
        path = f"/v1/passports/{self.about.passport_id}/compile"
        requested = await self._ask("compiler", client, "POST", path, json=body, headers=headers)
        if requested is not None:
            self.versions.append(UUID(requested["passport_version_id"]))

    async def _ask(self, who: Client, client: httpx2.AsyncClient, method: str, path: str, **what: Any) -> Any:
        """Ask once: whatever is not a good answer is a failed request."""
        try:
            answer = await client.request(method, path, **what)
        except httpx2.HTTPError as failed:
            self.failed.append(f"{method} {path}: {failed!r}")
            return None
        finally:
            self.answered[who] += 1
        if answer.status_code >= 300:
            self.failed.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return None
        return answer.json()


@asynccontextmanager
async def run_load(url: str, api_keys: list[str], about: CompileReady) -> AsyncIterator[Load]:
    """The load, for as long as the block lasts. Each client has a key of its own."""
    load = Load(url, about)
    over = asyncio.Event()
    staying, anew = httpx2.Limits(max_connections=1), httpx2.Limits(max_keepalive_connections=0)
    kinds = [(load.read, staying), (load.page, staying), (load.write, anew), (load.compile, anew)]
    running = [
        asyncio.create_task(_repeat_requests(url, key, ask, limits, pause, over))
        for key, (ask, limits), pause in zip(api_keys, kinds, PAUSES, strict=True)
    ]
    try:
        yield load
    finally:
        over.set()
        await asyncio.gather(*running)


async def _repeat_requests(
    url: str,
    key: str,
    ask: Callable[[httpx2.AsyncClient], Awaitable[None]],
    limits: httpx2.Limits,
    pause: float,
    over: asyncio.Event,
) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:
        while not over.is_set():
            await ask(client)
            await asyncio.sleep(pause)
