"""Who may begin: before authentication by address, then a turn and a share of the event loop by tenant.

    async with admission.admit(key, address, meter):       # waits for a turn; raises RateLimited
        async with database.plain() as conn:
            caller = await authenticate(…)                 # then remember_key or note_failure

The tenant of a key that was valid before is remembered, by a hash of the whole key, so that its requests wait in the
line of its tenant from the beginning. It is only a hint for this: whether the key is still valid is asked each time.
A key that was never seen is a stranger's. Strangers share few turns, and an address with many failed attempts gets
none until it has paused. Keys that were valid before are not kept out with their address, which may be a proxy's.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from bpc.api.access.caller_memory import Credential, hash_credential
from bpc.api.access.loop_shares import CpuMeter, LoopShares
from bpc.api.access.tenant_limits import RateLimited, RequestTurns, TenantActivity
from bpc.core.formats.ids import TenantId

MAX_REMEMBERED: Final = 10_000  # keys, and addresses
FAILURE_BURST: Final = 100  # failed attempts of an address before it has to pause
ASKER_BURST: Final = 20  # requests of an address to see more of a passport
ASKERS_PER_SECOND: Final = 1 / 600
STORED_PATHS: Final = ("/p/", "/01/", "/status/")  # what is public and read from the database
MAX_IN_FLIGHT: Final = 200  # requests of one tenant that send their body, wait or run


class AddressLimits:
    """What each address may try: a burst, then so many a second. 0 a second switches it off.

    Failed attempts to authenticate are counted, unless the `label` says something else.
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        burst: int = FAILURE_BURST,
        label: str = "requests with unknown keys from this address",
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._burst = burst
        self._label = label
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # attempts left, and when that was

    def require_attempt_left(self, address: str) -> None:
        """Raise `RateLimited` if the address has failed too often."""
        if self._rate and self._count_left(address) < 1:
            raise RateLimited(self._label, max(1, round(1 / self._rate)))

    def note_failure(self, address: str) -> None:
        self._left[address] = (self._count_left(address) - 1, self._clock())
        self._left.move_to_end(address)
        if len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)

    def _count_left(self, address: str) -> float:
        left, at = self._left.get(address, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._rate)


class Admission:
    """The admission to one process."""

    def __init__(self, pool_size: int, *, failures_per_second: float) -> None:
        self.activity = TenantActivity()
        self.shares = LoopShares(self.activity)
        self.turns = RequestTurns(pool_size, self.activity)
        self.addresses = AddressLimits(failures_per_second)
        self.askers = AddressLimits(ASKERS_PER_SECOND, burst=ASKER_BURST, label="requests for access from this address")
        self._public_turns = asyncio.Semaphore(max(1, pool_size // 2))
        self._tenants: OrderedDict[bytes, TenantId] = OrderedDict()
        self._in_flight: Counter[TenantId] = Counter()

    @asynccontextmanager
    async def admit(self, key: Credential, address: str, meter: CpuMeter) -> AsyncIterator[None]:
        """Wait for the turn and the share of the key's tenant, and keep the turn until the block ends."""
        digest = hash_credential(key)
        tenant = self._tenants.get(digest)
        if tenant is None:
            self.addresses.require_attempt_left(address)
            async with self.turns.take(None):
                await self.wait_as_stranger(address, meter)
                yield
            return
        self._tenants.move_to_end(digest)
        meter.bill(tenant)
        self.activity.note_request(tenant)
        async with self.turns.take(tenant):
            await self.shares.wait_for_share(tenant)
            yield

    async def wait_as_stranger(self, address: str, meter: CpuMeter) -> None:
        """Let a request that has no tenant wait for the share of its address."""
        meter.bill(address)
        await self.shares.wait_for_share(address)

    @asynccontextmanager
    async def admit_reader(self, scope: Mapping[str, Any], meter: CpuMeter) -> AsyncIterator[None]:
        """Wait as a stranger who reads what is public; where that needs a connection, keep a turn until the block ends.

        All readers together have half of the connections, so that no crowd of them keeps tenants out. Raises
        `RateLimited` if too many requests of one address wait.
        """
        address = find_address(scope)
        await self.wait_as_stranger(address, meter)
        if not scope["path"].startswith(STORED_PATHS):
            yield
            return
        async with self.turns.take(address), self._public_turns:
            yield

    @contextmanager
    def hold_place(self, tenant: TenantId) -> Iterator[None]:
        """Count a request of the tenant until the block ends. Raises `RateLimited` if there are too many."""
        if self._in_flight[tenant] >= MAX_IN_FLIGHT:
            raise RateLimited("requests at the same time", 1)
        self._in_flight[tenant] += 1
        try:
            yield
        finally:
            self._in_flight[tenant] -= 1
            if not self._in_flight[tenant]:
                del self._in_flight[tenant]

    def remember_key(self, key: Credential, tenant: TenantId) -> None:
        """Remember whose key this is. It was valid, or is a revoked or expired one of this tenant."""
        digest = hash_credential(key)
        self._tenants[digest] = tenant
        self._tenants.move_to_end(digest)
        if len(self._tenants) > MAX_REMEMBERED:
            self._tenants.popitem(last=False)


def find_address(scope: Mapping[str, Any]) -> str:
    """The address of a client, as it is counted: an IPv6 client has a whole /64 of addresses.

    It is where the connection came from, or what a trusted proxy says (`client_address`).
    """
    host = str((scope.get("client") or ("unknown",))[0])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))
