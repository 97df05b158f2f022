"""The guard: an HTTP client that connects to addresses it has checked, and to those only.

  1. the URL has the plain form, and is https where only that is accepted
  2. every address of its name may be reached
  3. the connection goes to one of these addresses; TLS and the Host header keep the name
  4. what it answers is read as it is: no redirect is followed, nothing is unpacked, no more is read than asked for
  5. all of it within a time

No proxy of the environment is used: it would do the resolving, and reach what we may not.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import httpx2

from bpc import __version__
from bpc.core.outbound_urls import Destination, NotHttps, checked_url, destination, is_named
from bpc.outbound.addresses import Address, Resolve, addresses_of, resolved
from bpc.outbound.answers import Answer, in_words

LONGEST: Final = 30.0  # seconds for a request and its answer
CLOSING: Final = 1.0  # seconds to hang up in
MOST_BYTES: Final = 65_536  # of an answer's body; of its head the HTTP client reads at most 100 KiB
OWN_HEADERS: Final = {"User-Agent": f"bpc/{__version__}", "Accept-Encoding": "identity", "Connection": "close"}
# A connection that was made for one name must not serve another one that has the same address.
ONE_USE: Final = httpx2.Limits(max_connections=1, max_keepalive_connections=0)


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer whose body is still to come, as `bpc.jobs.download` wants it."""

    wanted: Destination
    response: httpx2.Response
    stalled_after: float

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        """The body as it was sent, in pieces of `size` bytes."""
        with in_words(self.wanted, self.stalled_after):
            async for piece in self.response.aiter_raw(size):
                yield piece


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Sends to where it may. `allow` is BPC_OUTBOUND_ALLOW; `trust` says whose certificates are accepted.

    With `http_to_allowed`, "https only" does not hold for what `allow` names.
    """

    allow: Sequence[str] = ()
    https_only: bool = True
    http_to_allowed: bool = False
    resolve: Resolve = resolved
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    longest: float = LONGEST

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout: float | None = None,  # noqa: ASYNC109 (for all of it together)
        most_bytes: int = MOST_BYTES,
    ) -> Answer:
        """Send a request and read the answer, to its end or to `most_bytes` of its body. A redirect is an answer.

        The head says what became of the request. If it is there in time, that is the answer, and of a body that is not
        there when the time is over, or breaks off, there is what came.

        Raises `BadUrl` or `OutboundBlocked`, which are final, or `OutboundFailed`.
        """
        wanted = self._wanted(url)
        seconds = self.longest if timeout is None else timeout
        until = asyncio.get_running_loop().time() + seconds
        async with self._asked(method, wanted, headers or {}, content, seconds) as response:
            body, is_cut = await _beginning(response, most_bytes, until)
        return Answer(status=response.status_code, headers=dict(response.headers), body=body, is_cut=is_cut)

    @asynccontextmanager
    async def open_url(self, url: str, *, start: int, validator: str | None) -> AsyncIterator[Opened]:
        """Ask for a file from byte `start` on, on condition that it is still the one with this `validator`.

        The answer must begin within the guard's time and make no pause that is longer; how long all of it may take is
        for the reader to say.
        """
        wanted = self._wanted(url)
        headers = {"Range": f"bytes={start}-"} if start else {}
        if start and validator is not None:
            headers["If-Range"] = validator
        async with self._asked("GET", wanted, headers, b"", self.longest) as response:
            yield Opened(wanted, response, self.longest)

    @asynccontextmanager
    async def _asked(
        self, method: str, wanted: Destination, headers: Mapping[str, str], content: bytes, seconds: float
    ) -> AsyncIterator[httpx2.Response]:
        """The answer as far as its head."""
        sent = OWN_HEADERS | dict(headers) | {"Host": wanted.authority}
        client = self._client(seconds)
        try:
            with in_words(wanted, seconds):
                async with asyncio.timeout(seconds):
                    addresses = await addresses_of(wanted, allow=self.allow, resolve=self.resolve)
                    response = await _first_that_connects(client, method, wanted, addresses, sent, content)
            try:
                yield response
            finally:
                await _hung_up(response.aclose())
        finally:
            await _hung_up(client.aclose())

    def check(self, url: str) -> None:
        """Refuse a URL that says by itself that nothing will come of it: `BadUrl` or `OutboundBlocked`."""
        checked_url(url, https_only=False, allowed=self.allow)
        self._wanted(url)

    def _wanted(self, url: str) -> Destination:
        wanted = destination(url, https_only=self.https_only and not self.http_to_allowed)
        if self.https_only and wanted.scheme != "https" and not is_named(wanted, wanted.address, self.allow):
            raise NotHttps
        return wanted

    def _client(self, seconds: float) -> httpx2.AsyncClient:
        # A third for each of TCP and TLS: whoever does not take calls leaves time for the next address.
        waits = httpx2.Timeout(seconds, connect=seconds / 3)
        return httpx2.AsyncClient(
            verify=self._trusted, trust_env=False, follow_redirects=False, limits=ONE_USE, timeout=waits
        )

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        return self.trust or httpx2.create_ssl_context()  # those of this machine, or of SSL_CERT_FILE


async def _hung_up(closing: Awaitable[None]) -> None:
    """We have what we wanted: whoever does not let go, or breaks off, changes nothing about it."""
    with suppress(httpx2.TransportError, OSError):  # a TimeoutError is one, too
        async with asyncio.timeout(CLOSING):
            await closing


async def _first_that_connects(
    client: httpx2.AsyncClient,
    method: str,
    wanted: Destination,
    addresses: Sequence[Address],
    headers: Mapping[str, str],
    content: bytes,
) -> httpx2.Response:
    """The answer of the first address that a connection can be made to. The request is sent there only."""
    *before, last = addresses
    for address in before:
        try:
            return await client.send(_request(client, method, wanted, address, headers, content), stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await client.send(_request(client, method, wanted, last, headers, content), stream=True)


def _request(
    client: httpx2.AsyncClient,
    method: str,
    wanted: Destination,
    address: Address,
    headers: Mapping[str, str],
    content: bytes,
) -> httpx2.Request:
    host = f"[{address}]" if address.version == 6 else str(address)
    return client.build_request(
        method,
        f"{wanted.scheme}://{host}:{wanted.port}{wanted.target}",
        headers=[(name.encode(), value.encode()) for name, value in headers.items()],
        content=content or None,
        # The certificate must be of the name; the path goes out as it was written.
        extensions={"sni_hostname": wanted.host, "target": wanted.target.encode()},
    )


async def _beginning(response: httpx2.Response, most: int, until: float) -> tuple[bytes, bool]:
    """The body, at most its first `most` bytes and what came `until` then, and whether there is more."""
    body = bytearray()
    try:
        async with asyncio.timeout_at(until):
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > most:
                    break
            else:
                return bytes(body), False
    except (httpx2.TransportError, OSError):  # a TimeoutError is one, too
        pass
    return bytes(body[:most]), True
