"""The guard: an HTTP client that connects only to addresses it has checked.

A request gives an answer or a refusal. Refusals name the host as it was written and never an address it resolved to, so
that a tenant learns nothing about the network of this machine.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import httpx2

from bpc import __version__
from bpc.core.errors import Refusal
from bpc.core.outbound_urls import (
    Destination,
    NotHttps,
    OutboundBlocked,
    check_url,
    is_allowlisted,
    may_reach,
    parse_destination,
)

CHECK_SERVER_HINT: Final = "if this continues, check that server and the network path to it"
MAX_ADDRESSES: Final = 4  # of one name
DEFAULT_TIMEOUT: Final = 30.0  # seconds for a request and its answer
CLOSE_TIMEOUT: Final = 1.0  # seconds for closing a connection
MAX_BODY_BYTES: Final = 65_536  # of an answer; the HTTP client limits the headers to 100 KiB
OWN_HEADERS: Final = {"User-Agent": f"bpc/{__version__}", "Accept-Encoding": "identity", "Connection": "close"}
# A connection to one name must not be used for another name with the same address.
SINGLE_USE_LIMITS: Final = httpx2.Limits(max_connections=1, max_keepalive_connections=0)

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundAnswer:
    """The answer of a server. `body` is as it was sent; `is_truncated` says that it has more."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    is_truncated: bool = False


class OutboundFailed(Refusal):
    """The network or the other server failed; another attempt may succeed."""

    code = "OUTBOUND_FAILED"


class OutboundTimedOut(OutboundFailed):
    """No answer within the time limit."""

    code = "REQUEST_TIMEOUT"


@contextmanager
def translate_errors(remote: Destination, seconds: float) -> Iterator[None]:
    """Turn errors of the HTTP client into refusals."""
    authority = f"`{remote.authority}`"
    try:
        yield
    except (httpx2.TimeoutException, TimeoutError):
        raise OutboundTimedOut(f"{authority} did not answer within {seconds:g} s", fix=CHECK_SERVER_HINT) from None
    except httpx2.ConnectError as error:
        raise _explain_connect_error(authority, error) from None
    except httpx2.RemoteProtocolError:
        says = f"{authority} did not answer in HTTP, or stopped in the middle of its answer"
        raise OutboundFailed(says, fix=CHECK_SERVER_HINT) from None
    except (httpx2.TransportError, OSError):
        raise OutboundFailed(f"the connection to {authority} was lost", fix=CHECK_SERVER_HINT) from None


def _explain_connect_error(authority: str, error: BaseException) -> OutboundFailed:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return OutboundFailed(
                f"the certificate of {authority} was not accepted: {cause.verify_message}",
                fix="renew it, or get one for this name from an authority that this machine trusts",
            )
        if isinstance(cause, ssl.SSLError):
            return OutboundFailed(
                f"no TLS connection to {authority} is possible", fix="enable TLS 1.2 or later on that server"
            )
        cause = cause.__cause__ or cause.__context__
    return OutboundFailed(f"{authority} could not be reached", fix=CHECK_SERVER_HINT)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses of a name by the resolver of this machine, in the order to try them; none if there is no such name.

    Raises `OutboundFailed` if no name server answers: then nobody knows.
    """
    loop = asyncio.get_running_loop()
    try:
        records = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise OutboundFailed("no name server answers at the moment", fix=CHECK_SERVER_HINT) from None
        return []
    except UnicodeError:
        return []
    return list(dict.fromkeys(str(record[4][0]) for record in records))


async def find_addresses(remote: Destination, *, allow: Sequence[str], resolve: Resolve) -> Sequence[Address]:
    """The addresses to try. Raises `OutboundBlocked`.

    A name without an address is refused with the same words as one with a private address: otherwise a tenant could
    find out which names our own network has.
    """
    addresses: list[Address] = [remote.address] if remote.address is not None else []
    if remote.address is None:
        addresses = [ip_address(text) for text in await resolve(remote.host, remote.port)]
    if not addresses or not all(may_reach(remote, address, allow) for address in addresses):
        raise OutboundBlocked
    return addresses[:MAX_ADDRESSES]


@dataclass(frozen=True, slots=True)
class OpenedResponse:
    """An answer whose body is not read yet, in the form that `service_jobs.download` reads."""

    remote: Destination
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
        with translate_errors(self.remote, self.stalled_after):
            async for piece in self.response.aiter_raw(size):
                yield piece


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Sends to public addresses and to what `allow` names. `trust` decides which certificates are accepted.

    With `http_to_allowed`, `https_only` does not apply to what `allow` names.
    """

    allow: Sequence[str] = ()
    https_only: bool = True
    http_to_allowed: bool = False
    resolve: Resolve = resolve_host
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    max_seconds: float = DEFAULT_TIMEOUT

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout: float | None = None,  # noqa: ASYNC109 (for all of it together)
        max_bytes: int = MAX_BODY_BYTES,
    ) -> OutboundAnswer:
        """Send a request and read the answer, with at most `max_bytes` of its body. Redirects are not followed.

        Status and headers must arrive in time. If the body does not, or breaks off, the answer has the part that came.

        Raises `BadUrl` or `OutboundBlocked`, which are final, or `OutboundFailed`.
        """
        remote = self._check_destination(url)
        seconds = self.max_seconds if timeout is None else timeout
        deadline = asyncio.get_running_loop().time() + seconds
        async with self._open_response(method, remote, headers or {}, content, seconds) as response:
            body, is_truncated = await _read_beginning(response, max_bytes, deadline)
        return OutboundAnswer(
            status=response.status_code, headers=dict(response.headers), body=body, is_truncated=is_truncated
        )

    @asynccontextmanager
    async def open_url(self, url: str, *, start: int, validator: str | None) -> AsyncIterator[OpenedResponse]:
        """Ask for a file from byte `start` on, if its `validator` is still the same.

        The answer must begin within `max_seconds` and make no longer pause. The caller limits the total time.
        """
        remote = self._check_destination(url)
        headers = {"Range": f"bytes={start}-"} if start else {}
        if start and validator is not None:
            headers["If-Range"] = validator
        async with self._open_response("GET", remote, headers, b"", self.max_seconds) as response:
            yield OpenedResponse(remote, response, self.max_seconds)

    @asynccontextmanager
    async def _open_response(
        self, method: str, remote: Destination, headers: Mapping[str, str], content: bytes, seconds: float
    ) -> AsyncIterator[httpx2.Response]:
        """The answer with its headers; the body is not read yet."""
        all_headers = OWN_HEADERS | dict(headers) | {"Host": remote.authority}
        client = self._build_client(seconds)
        try:
            with translate_errors(remote, seconds):
                async with asyncio.timeout(seconds):
                    addresses = await find_addresses(remote, allow=self.allow, resolve=self.resolve)
                    response = await _send_to_first_reachable(client, method, remote, addresses, all_headers, content)
            try:
                yield response
            finally:
                await _close_quietly(response.aclose())
        finally:
            await _close_quietly(client.aclose())

    def check(self, url: str) -> None:
        """Refuse a URL that can never be reached: `BadUrl` or `OutboundBlocked`."""
        check_url(url, https_only=False, allowlist=self.allow)
        self._check_destination(url)

    def _check_destination(self, url: str) -> Destination:
        remote = parse_destination(url, https_only=self.https_only and not self.http_to_allowed)
        if self.https_only and remote.scheme != "https" and not is_allowlisted(remote, remote.address, self.allow):
            raise NotHttps
        return remote

    def _build_client(self, seconds: float) -> httpx2.AsyncClient:
        # A third for each of TCP and TLS, so that an address that does not answer leaves time for the next one.
        timeouts = httpx2.Timeout(seconds, connect=seconds / 3)
        return httpx2.AsyncClient(
            verify=self._ssl_context,
            trust_env=False,
            follow_redirects=False,
            limits=SINGLE_USE_LIMITS,
            timeout=timeouts,
        )

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        return self.trust or httpx2.create_ssl_context()  # the authorities of this machine, or of SSL_CERT_FILE


async def _close_quietly(closing: Awaitable[None]) -> None:
    """Close the connection. A server that does not close in time does not change the answer."""
    with suppress(httpx2.TransportError, OSError):  # a TimeoutError is one, too
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await closing


async def _send_to_first_reachable(
    client: httpx2.AsyncClient,
    method: str,
    remote: Destination,
    addresses: Sequence[Address],
    headers: Mapping[str, str],
    content: bytes,
) -> httpx2.Response:
    """Send the request to the first address that accepts a connection, and to no other."""
    *others, last = addresses
    for address in others:
        try:
            return await client.send(_build_request(client, method, remote, address, headers, content), stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await client.send(_build_request(client, method, remote, last, headers, content), stream=True)


def _build_request(
    client: httpx2.AsyncClient,
    method: str,
    remote: Destination,
    address: Address,
    headers: Mapping[str, str],
    content: bytes,
) -> httpx2.Request:
    host = f"[{address}]" if address.version == 6 else str(address)
    return client.build_request(
        method,
        f"{remote.scheme}://{host}:{remote.port}{remote.target}",
        headers=[(name.encode(), value.encode()) for name, value in headers.items()],
        content=content or None,
        # The certificate must be for the name. The path is sent as it was written.
        extensions={"sni_hostname": remote.host, "target": remote.target.encode()},
    )


async def _read_beginning(response: httpx2.Response, max_bytes: int, deadline: float) -> tuple[bytes, bool]:
    """The body up to `max_bytes` or to what came before `deadline`, and whether there is more."""
    body = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > max_bytes:
                    break
            else:
                return bytes(body), False
    except (httpx2.TransportError, OSError):  # a TimeoutError is one, too
        pass
    return bytes(body[:max_bytes]), True
