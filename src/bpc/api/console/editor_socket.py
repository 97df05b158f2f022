"""/console/rules/editor: the WebSocket between the editor of the console and a language server.

    browser ── WebSocket ──► EditorSockets ── standard input ──► bpc rules lsp --memory-only
            ◄───────────────               ◄── standard output ──

1. The request names this very host in `Origin`, and carries the cookie of a session.
2. The session is valid and its actor has `rules:read`. Both are asked again while the socket is open.
3. A tenant has few editors open, and the process not many.
4. Each message is one that this editor needs, about its two documents in memory (`editor_messages`).
5. Messages wait for the share of their tenant. Their size, number and bytes are bounded.
6. The child process ends with the socket, when nothing was sent for long, and when it computes for long without a word.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bpc.api.access.admission import find_address
from bpc.api.access.auth import authenticate_session, decide_for, record_use
from bpc.api.access.tenant_limits import RateLimited
from bpc.api.console.editor_messages import require_editor_message
from bpc.api.console.editor_process import LanguageServerProcess, start_language_server
from bpc.api.console.session_cookie import ForeignRequest, read_session_cookie, require_same_origin
from bpc.api.http.request_context import Service
from bpc.core.api_keys import Unauthorized
from bpc.core.console_access import SessionOver, SessionSecret
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.access.console_sessions import SessionCaller

EDITOR_PATH: Final = "/console/rules/editor"
EDITOR_PERMISSION: Final = "rules:read"
MAX_MESSAGE_BYTES: Final = 3_000_000  # a text of 1 MiB, as JSON
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorLimits:
    """What one editor may use, and how many there are. Times are in seconds."""

    per_tenant: int = 4
    in_all: int = 16
    burst: int = 200  # messages
    per_second: int = 50
    idle: float = 900.0
    recheck: float = 10.0
    computing: float = 30.0  # of processor time, without a word


class SocketEnd(NamedTuple):
    """Why a socket ends. Codes from 4000 are ours, and the page has a sentence for each."""

    code: int
    reason: str


SESSION_OVER: Final = SocketEnd(4401, "the session is over")
NOT_ALLOWED: Final = SocketEnd(4403, "rules:read is needed")
IDLE: Final = SocketEnd(4408, "nothing was sent for a while")
TOO_LONG: Final = SocketEnd(4413, "checking takes too long")
TOO_MANY: Final = SocketEnd(4429, "too many editors are open")
SERVER_ENDED: Final = SocketEnd(4500, "the language server has ended")


class EditorSockets:
    """The editors that are open in this process."""

    def __init__(self, limits: EditorLimits = EditorLimits()) -> None:  # noqa: B008 (frozen)
        self._limits = limits
        self._open: Counter[TenantId] = Counter()

    def make_route(self) -> WebSocketRoute:
        return WebSocketRoute(EDITOR_PATH, self, name="console.editor")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        try:
            require_same_origin(socket)
            secret = read_session_cookie(socket)
            if secret is None:
                raise SessionOver
            caller = await _find_caller(socket, secret)
        except (ForeignRequest, Unauthorized, Refusal):
            await socket.close()  # before it was accepted: the answer is 403
            return
        await socket.accept()
        end = await self._serve(socket, secret, caller)
        log.info("editor closed", code=end.code, reason=end.reason)
        if socket.application_state is WebSocketState.CONNECTED and socket.client_state is WebSocketState.CONNECTED:
            await socket.close(end.code, end.reason)

    async def _serve(self, socket: WebSocket, secret: SessionSecret, caller: SessionCaller) -> SocketEnd:
        if not _is_allowed(caller):
            return NOT_ALLOWED
        try:
            with self._hold_place(caller.tenant_id):
                async with start_language_server() as server:
                    return await _Editor(socket, server, secret, caller, self._limits).serve()
        except RateLimited:
            return TOO_MANY

    @contextmanager
    def _hold_place(self, tenant: TenantId) -> Iterator[None]:
        if self._open[tenant] >= self._limits.per_tenant or self._open.total() >= self._limits.in_all:
            raise RateLimited("editors at the same time", 10)
        self._open[tenant] += 1
        try:
            yield
        finally:
            self._open[tenant] -= 1


class _Editor:
    """One open editor: two directions, and somebody who looks at the clock."""

    def __init__(
        self,
        socket: WebSocket,
        server: LanguageServerProcess,
        secret: SessionSecret,
        caller: SessionCaller,
        limits: EditorLimits,
    ) -> None:
        self._socket, self._server, self._secret, self._caller = socket, server, secret, caller
        self._limits = limits
        self._now = asyncio.get_running_loop().time
        self._last_message = self._now()
        self._tokens = MessageTokens(limits, self._last_message)

    async def serve(self) -> SocketEnd:
        """Pass messages on until one side ends."""
        tasks = [asyncio.create_task(each) for each in (self._read_browser(), self._read_server(), self._watch())]
        try:
            first_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return first_tasks.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_browser(self) -> SocketEnd:
        admission = _get_service(self._socket).admission
        while True:
            try:
                text = await self._socket.receive_text()
                require_editor_message(text)
                self._last_message = self._now()
                admission.activity.note_request(self._caller.tenant_id)
                await admission.shares.wait_for_share(self._caller.tenant_id)
                await asyncio.sleep(self._tokens.take(self._last_message))
                await self._server.send(text)
            except WebSocketDisconnect as end:
                return SocketEnd(end.code, "the browser has gone")
            except Invalid as refusal:
                return SocketEnd(4400, refusal.says[:100])
            except (KeyError, ValueError):
                return SocketEnd(4400, "messages are texts")
            except ConnectionError:
                return SERVER_ENDED

    async def _read_server(self) -> SocketEnd:
        while (text := await self._server.receive()) is not None:
            await self._socket.send_text(text)
        return SERVER_ENDED

    async def _watch(self) -> SocketEnd:
        """End it when nobody types, when session or right are gone, and when the server computes for too long."""
        answers, cpu_then, looked_at = 0, 0.0, self._now()
        pause = min(1.0, self._limits.recheck, self._limits.idle)
        while True:
            await asyncio.sleep(pause)
            now, cpu_seconds = self._now(), self._server.measure_cpu_seconds()
            if self._server.answers != answers:
                answers, cpu_then = self._server.answers, cpu_seconds
            elif cpu_seconds - cpu_then > self._limits.computing:
                return TOO_LONG
            if now - self._last_message > self._limits.idle:
                return IDLE
            if now - looked_at >= self._limits.recheck:
                is_used, looked_at = self._last_message > looked_at, now
                try:
                    caller = await _find_caller(self._socket, self._secret, is_used=is_used)
                except Unauthorized:
                    return SESSION_OVER
                except RateLimited:
                    continue
                if not _is_allowed(caller):
                    return NOT_ALLOWED


class MessageTokens:
    """A burst of messages, then so many a second: whoever sends more waits."""

    def __init__(self, limits: EditorLimits, now: float) -> None:
        self._limits = limits
        self._left, self._at = float(limits.burst), now

    def take(self, now: float) -> float:
        """Take one; the seconds to wait for it."""
        self._left = min(self._limits.burst, self._left + (now - self._at) * self._limits.per_second) - 1
        self._at = now
        return max(0.0, -self._left / self._limits.per_second)


def _get_service(socket: WebSocket) -> Service:
    service: Service = socket.app.state.service
    return service


def _is_allowed(caller: SessionCaller) -> bool:
    return decide_for(caller, EDITOR_PERMISSION, None, clock.now()).allowed


async def _find_caller(socket: WebSocket, secret: SessionSecret, *, is_used: bool = True) -> SessionCaller:
    """Who has this session now. Raises `SessionOver`."""
    service, now = _get_service(socket), clock.now()
    turn = service.admission.admit(secret, find_address(socket.scope), socket.state.meter)
    async with turn, service.database.plain() as conn:
        caller = await authenticate_session(service, conn, socket, secret, now)
        if is_used:
            await record_use(conn, caller, now)
    return caller
