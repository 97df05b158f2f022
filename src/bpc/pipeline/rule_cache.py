"""The rules that a process compiled last: their sources by hash, and the programs that were built of them."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import RulePackageVersionId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.rules import packages

MAX_CACHED_RULES: Final = 32
QUICK_SECONDS: Final = 0.005  # a compile this quick does not delay the other jobs of the process


class CompileInputChanged(Conflict):
    """The stored rules or facts are not those that the request fixed."""

    def __init__(self, changed_part: str) -> None:
        super().__init__(
            f"the stored {changed_part} have changed since the compile was requested", fix="request the compile again"
        )


@dataclass(slots=True, kw_only=True)
class RuleTexts:
    """The source of rules and of their tests. `quick_fact_count` facts have been compiled quickly with them."""

    dsl: bytes
    tests: bytes
    quick_fact_count: int = 0
    _is_ready: bool = False
    _first_use: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def wait_until_ready(self) -> AsyncIterator[None]:
        """Who uses rules first makes them ready to run, which takes long. Others wait instead of doing it too."""
        if self._is_ready:
            yield
            return
        async with self._first_use:
            if not self._is_ready:
                yield
                self._is_ready = True
                return
        yield

    def record_duration(self, seconds: float, facts: int) -> None:
        """Remember a compile: quick ones run on the event loop from now on, others in a thread."""
        self.quick_fact_count = max(self.quick_fact_count, facts) if seconds <= QUICK_SECONDS else 0


class RuleCache:
    """The sources of the rules that this process compiled last, by their hashes."""

    def __init__(self) -> None:
        self._texts_by_hash: OrderedDict[tuple[str, str], RuleTexts] = OrderedDict()

    async def load_texts(
        self, conn: Connection, tenant: TenantId, version: RulePackageVersionId, hashes: tuple[str, str]
    ) -> RuleTexts:
        """The sources of a version with these hashes, of rules and tests, which are compared when they are loaded."""
        if hashes not in self._texts_by_hash:
            sources = await packages.load_sources(conn, tenant, version)
            if (to_hex(sha256(sources.dsl)), to_hex(sha256(sources.tests))) != hashes:
                raise CompileInputChanged("rules")
            self._texts_by_hash[hashes] = RuleTexts(dsl=sources.dsl, tests=sources.tests)
        self._texts_by_hash.move_to_end(hashes)
        if len(self._texts_by_hash) > MAX_CACHED_RULES:
            self._texts_by_hash.popitem(last=False)
        return self._texts_by_hash[hashes]
