"""The host that a request reached: its address, and whose passports it shows. And what all public answers have.

    the installation's own host   everything: pages of all tenants, and the API
    a tenant's domain             its pages and what they are checked with; everything else is 404
    any other                     no pages and no console: 421, if BPC_PUBLIC_URL says what the own host is

Only an operator assigns a domain. The API itself answers under any name that is no tenant's domain: it is called inside
a cluster by names of its own, and keys guard it. No public answer depends on who asks, so caches may keep it.

The list of domains is read when the process starts and every ten seconds, beside requests: none of them waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from bpc.api.http.error_responses import answer_refusal, answer_status
from bpc.api.http.request_context import Service
from bpc.core.errors import Refusal
from bpc.core.formats.ids import TenantId
from bpc.core.identifiers.addresses import is_domain
from bpc.printing.web_page import CONTENT_SECURITY_POLICY
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import locate_public_url
from bpc.storage.access.tenants_and_actors import list_public_hosts
from bpc.storage.database import Database

FOR_EVER: Final = "public, max-age=31536000, immutable"
FOR_SECONDS: Final = "public, max-age=10"
ALLOWED_METHODS: Final = "GET, HEAD, OPTIONS"
OPEN_TO_ALL: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Link, ETag, Content-Language, Location",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
METHOD_HEADERS: Final = {
    **OPEN_TO_ALL,
    "Allow": ALLOWED_METHODS,
    "Access-Control-Allow-Methods": ALLOWED_METHODS,
    "Access-Control-Allow-Headers": "Accept, Accept-Language, If-None-Match",
    "Access-Control-Max-Age": "86400",
}
HTML_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


PAGE_PATHS: Final = ("/p/", "/01/", "/page-assets/", "/verify", "/.well-known/gs1resolver")
CONSOLE_PATH: Final = "/console"
# What pages are checked with, which is the same under every host.
EVIDENCE_PATHS: Final = ("/status/", "/log/", "/.well-known/")
HEALTH_PATHS: Final = ("/v1/health", "/v1/metrics")
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
KEPT_SECONDS: Final = 10.0

log = get_logger(__name__)


class UnknownHost(Refusal):
    """RFC 9110 15.5.20: this installation does not answer for that host."""

    code = "MISDIRECTED_REQUEST"

    def __init__(self) -> None:
        super().__init__(
            "there are no public pages under this host", fix="use the address on the label, or ask the operator"
        )


class PublicSite(NamedTuple):
    """Where public pages are, without a slash at the end; with a `tenant`, only that tenant's."""

    root: str
    tenant: TenantId | None = None

    @property
    def host(self) -> str:
        return self.root.partition("://")[2]


class PublicHosts:
    """Which domain is whose, as of the last reading.

    A reading that fails leaves the list as it was. Only before the first one does a request wait for it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tenants: Mapping[str, TenantId] | None = None
        self._lock = asyncio.Lock()

    async def find_tenant(self, host: str) -> TenantId | None:
        if self._tenants is None:
            async with self._lock:
                if self._tenants is None:
                    await self.read()
        return (self._tenants or {}).get(host)

    async def read(self) -> None:
        """Read the list now."""
        self._tenants = await list_public_hosts(self._database)

    @asynccontextmanager
    async def keep_current(self) -> AsyncIterator[None]:
        """Read the list, and again every ten seconds while the block runs."""
        await self._try_to_read()
        task = asyncio.create_task(self._read_again_and_again(), name="public hosts")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _read_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(KEPT_SECONDS)
            await self._try_to_read()

    async def _try_to_read(self) -> None:
        try:
            await self.read()
        except Refusal as refusal:
            log.warning("domains of tenants were not read", reason=refusal.says)


class HostMiddleware:
    """Decides by its Host what a request may reach."""

    def __init__(self, app: ASGIApp, hosts: PublicHosts, public_url: str | None) -> None:
        self.app = app
        self.hosts = hosts
        self.own_url = urlsplit(public_url or "")
        self.own_hosts = LOOPBACK | {self.own_url.hostname or ""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not scope["path"].startswith(HEALTH_PATHS):
            try:
                is_open = await self._admit(scope)
            except Refusal as refusal:
                await answer_refusal(refusal)(scope, receive, send)
                return
            if not is_open:
                await answer_status(404, None)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _admit(self, scope: Scope) -> bool:
        """Note whose site it is; False if there is nothing at this path of it."""
        host = _read_host(scope)
        path: str = scope["path"]
        if host in self.own_hosts:
            return True
        # A name of a cluster, such as `bpc-api`, or an address is never a tenant's.
        tenant = await self.hosts.find_tenant(host) if is_domain(host) else None
        if tenant is not None:
            scheme = self.own_url.scheme or scope["scheme"]
            scope["state"]["public_site"] = PublicSite(f"{scheme}://{host}", tenant)
            return path.startswith(PAGE_PATHS + EVIDENCE_PATHS)
        if self.own_url.hostname is not None and path.startswith((*PAGE_PATHS, CONSOLE_PATH)):
            raise UnknownHost
        return True


def _read_host(scope: Scope) -> str:
    """The host of a request without its port, in lower case; proxies of ours pass it on. Two hosts are none."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    text = hosts[0].decode("latin-1") if len(hosts) == 1 else ""  # RFC 9112, 3.2: a cache may have taken the other one
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def find_site(request: Request) -> PublicSite:
    """The site that was reached: a tenant's, or this installation's, as configured or as this request reached it."""
    site: PublicSite | None = request.scope["state"].get("public_site")
    if site is not None:
        return site
    service: Service = request.app.state.service
    return PublicSite(find_own_url(service.settings) or f"{request.url.scheme}://{request.url.netloc}")


def find_own_url(settings: Settings) -> str | None:
    """Where this installation's own pages are; None if it answers under any name.

    In prod it is what status documents name too, so that no answer that caches keep repeats the Host of a request.
    """
    return locate_public_url(settings) if settings.env == "prod" else settings.public_url


def open_to_all(request: Request) -> None:
    """Let any page read the answer of this request, also if it is an error."""
    request.scope["state"].setdefault("answer_headers", {}).update(OPEN_TO_ALL)
