"""Asking: what resolvers work with, and what stands between them and the data.

Everything of one query is read in the request's one transaction, one statement after the other: its connection takes
no two at once, and siblings of a query are resolved at the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from starlette.requests import Request
from strawberry.types import Info

from bpc.api.caller import decision_on, denied
from bpc.api.paging import MOST, Paging
from bpc.api.work import Doing
from bpc.core.cursor import List, read_cursor
from bpc.core.errors import Invalid, NotFound, Refusal
from bpc.core.ids import TenantId
from bpc.core.policies import Resource, asks_for_sku
from bpc.db import products
from bpc.db.connection import Connection
from bpc.db.failures import SAID_BY_THE_DRIVER, in_our_words

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Asking:
    """One query of one caller."""

    work: Doing
    request: Request
    _denied: dict[tuple[str, str, UUID | None], Refusal] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _known: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    async def read(
        self,
        function: Callable[Concatenate[Connection, TenantId, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """What `function` reads; the same question is asked once."""
        question = (function, args, tuple(sorted(named.items())))
        async with self._lock:
            if question not in self._known:
                self._known[question] = await self._read(function, *args, **named)
            found: T = self._known[question]
            return found

    async def _read(
        self,
        function: Callable[Concatenate[Connection, TenantId, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        try:
            return await function(self.work.conn, self.work.tenant, *args, **named)
        except SAID_BY_THE_DRIVER as said:
            if refusal := in_our_words(said):
                raise refusal from said
            raise

    async def found(
        self,
        function: Callable[Concatenate[Connection, TenantId, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> T | None:
        """What `function` reads, or None where it says that there is no such thing."""
        try:
            return await self.read(function, *args, **named)
        except NotFound:
            return None

    async def allow(self, permission: str, kind: str, thing: UUID | None = None) -> None:
        """Raise `Forbidden`, which will be on record, unless the caller may see this."""
        caller = self.work.caller
        sku = None
        if thing is not None and asks_for_sku(caller.policies):
            sku = await self.read(products.sku_of, kind, thing)
        decision = decision_on(caller, permission, Resource(type=kind, id=thing, sku=sku), self.work.act.at)
        if not decision.allowed:
            asked = permission, kind, thing
            if asked not in self._denied:  # on record once, however many fields ask
                self._denied[asked] = denied(caller, self.request, permission, decision)
            raise self._denied[asked]

    def ask(self, name: str, first: int, after: str | None, filters: dict[str, str]) -> Paging:
        if not 1 <= first <= MOST:
            raise Invalid(f"`first` is 1 to {MOST}, not {first}")
        of = List(tenant=self.work.tenant, route=f"graphql:{name}", filters=filters)
        service = self.work.service
        place = None if after is None else read_cursor(service.cursor_keys, of, after)
        return Paging(first, of, service.cursor_key, place)


def asking(info: Info[Asking, None]) -> Asking:
    return info.context
