"""The socket of the rule editor: for whom it opens, what it takes, what it answers, and what ends it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import psutil
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from bpc.api.console.editor_socket import EDITOR_PATH, MAX_MESSAGE_BYTES, EditorLimits, EditorSockets, MessageTokens
from bpc.api.http import app as app_module
from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from bpc.core.audit.events import Act
from bpc.core.console_access import SessionSecret
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access import console_sessions, tenants_and_actors
from bpc.storage.database import Database
from tests.api.conftest import Api

RULES: Final = "memory:///rules.bpc"
GOOD: Final = 'field a @public: Text = "x";\n'
UNIT_MISTAKE: Final = "language 2;\nfield mass @public: Qty(kg) = qty(5, g);\n"
LIMITS: Final = EditorLimits(per_tenant=2, idle=60.0, recheck=0.2)

Opener: TypeAlias = Callable[..., AbstractAsyncContextManager["Editor"]]


class Editor:
    """What the browser does, with one document."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._number = 0

    async def notify(self, method: str, parameters: Any) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": parameters}))

    async def ask(self, method: str, parameters: Any) -> Any:
        self._number += 1
        question = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        await self.socket.send(json.dumps(question))
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.recv(), 60))
            if message.get("id") == self._number and "method" not in message:
                return message["result"]

    async def initialize(self) -> Any:
        result = await self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        await self.notify("initialized", {})
        return result

    async def open(self, text: str) -> list[str]:
        document = {"uri": RULES, "languageId": "bpc", "version": 1, "text": text}
        await self.notify("textDocument/didOpen", {"textDocument": document})
        return await self.read_diagnostics()

    async def change(self, text: str, version: int) -> list[str]:
        document = {"uri": RULES, "version": version}
        await self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        return await self.read_diagnostics()

    async def read_diagnostics(self) -> list[str]:
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.recv(), 60))
            if message.get("method") == "textDocument/publishDiagnostics":
                return [each["code"] for each in message["params"]["diagnostics"]]

    async def wait_closed(self) -> int:
        """The code that the server closes it with."""
        with pytest.raises(ConnectionClosed) as ending:
            while True:
                await asyncio.wait_for(self.socket.recv(), 30)
        assert ending.value.rcvd is not None
        return ending.value.rcvd.code


@pytest.fixture
async def port(service: Service, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(app_module, "EditorSockets", partial(EditorSockets, LIMITS))
    async with listen(service, "127.0.0.1", 0) as listening:
        yield listening


async def begin_session(database: Database, tenant: TenantId, roles: list[str], act: Act) -> SessionSecret:
    async with database.tenant(tenant) as conn:
        person = await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name="P", roles=roles, act=act
        )
    async with database.tenant(tenant) as conn:
        return await console_sessions.start_session(
            conn,
            tenant,
            person,
            sign_in="LINK",
            link_hash=Digest(clock.random_bytes(32)),
            device="test",
            valid_for=timedelta(hours=1),
            act=act,
        )


@pytest.fixture
async def secret(database: Database, tenant: TenantId, act: Act) -> SessionSecret:
    return await begin_session(database, tenant, ["Auditor"], act)


@asynccontextmanager
async def connect_editor(port: int, secret: SessionSecret | None, origin: str = "") -> AsyncIterator[Editor]:
    headers = {} if secret is None else {"Cookie": f"bpc-dev-session-{port}={secret.text}"}
    page = Origin(origin or f"http://127.0.0.1:{port}")
    address = f"ws://127.0.0.1:{port}{EDITOR_PATH}"
    async with connect(address, additional_headers=headers, origin=page, proxy=None) as socket:
        yield Editor(socket)


@pytest.fixture
def open_editor(port: int) -> Opener:
    return partial(connect_editor, port)


async def test_mistakes_come_as_somebody_types(open_editor: Opener, secret: SessionSecret) -> None:
    async with open_editor(secret) as editor:
        server_features = (await editor.initialize())["capabilities"]
        before = await editor.open(UNIT_MISTAKE)
        after = await editor.change(UNIT_MISTAKE.replace("qty(5, g)", "qty(5, kg)"), 2)
        hover = await editor.ask(
            "textDocument/hover", {"textDocument": {"uri": RULES}, "position": {"line": 1, "character": 7}}
        )

    assert before == ["unit-mismatch"]
    assert after == []
    assert "mass" in json.dumps(hover)
    assert server_features["renameProvider"]


async def test_the_child_process_ends_with_the_socket(open_editor: Opener, secret: SessionSecret) -> None:
    before = {child.pid for child in psutil.Process().children()}
    async with open_editor(secret) as editor:
        await editor.initialize()
        [child] = [child for child in psutil.Process().children() if child.pid not in before]
        environment = child.environ()

    deadline = time.monotonic() + 10
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not child.is_running()
    assert [name for name in environment if name.startswith(("BPC_", "DATABASE", "PG"))] == []


async def test_it_opens_only_for_a_session_with_the_right_and_from_a_page_of_this_host(
    open_editor: Opener, database: Database, tenant: TenantId, act: Act, secret: SessionSecret
) -> None:
    powerless = await begin_session(database, tenant, [], act)

    for session, origin in ((None, ""), (secret, "https://evil.example"), (secret, "http://127.0.0.1:1")):
        with pytest.raises(InvalidStatus) as refusal:
            async with open_editor(session, origin):
                pass
        assert refusal.value.response.status_code == 403
    async with open_editor(powerless) as editor:
        assert await editor.wait_closed() == 4403


@pytest.mark.every_case
@pytest.mark.parametrize(
    "message",
    [
        {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///etc/passwd", "text": ""}}},
        {"method": "textDocument/hover", "params": {"textDocument": "memory:///rules.bpc"}},
        {"method": "workspace/executeCommand", "params": {"arguments": ["file:///etc/passwd"]}},
        {"id": 1, "method": "initialize", "params": {"rootUri": "file:///"}},
        {"method": "workspace/didChangeWorkspaceFolders", "params": {}},
        ["not", "an", "object"],
    ],
)
async def test_a_message_about_a_file_ends_it(open_editor: Opener, secret: SessionSecret, message: Any) -> None:
    async with open_editor(secret) as editor:
        await editor.socket.send(json.dumps(message))

        assert await editor.wait_closed() == 4400


async def test_a_message_that_is_too_large_ends_it(open_editor: Opener, secret: SessionSecret) -> None:
    async with open_editor(secret) as editor:
        await editor.socket.send("x" * (MAX_MESSAGE_BYTES + 1))

        assert await editor.wait_closed() == 1009


async def test_it_ends_with_the_session(
    open_editor: Opener, secret: SessionSecret, database: Database, tenant: TenantId, act: Act
) -> None:
    async with open_editor(secret) as editor:
        await editor.initialize()
        async with database.tenant(tenant) as conn:
            await console_sessions.end_sessions(conn, tenant, session=secret.session_id, act=act)

        assert await editor.wait_closed() == 4401


async def test_it_ends_with_the_right(open_editor: Opener, secret: SessionSecret, admin: Api) -> None:
    async with open_editor(secret) as editor:
        await editor.initialize()
        policy = {"name": "no rules", "effect": "DENY", "target": "rules:read", "priority": 100, "policy_json": {}}
        await admin.post_json("/v1/policies", policy)

        assert await editor.wait_closed() == 4403


async def test_a_tenant_has_few_editors(open_editor: Opener, secret: SessionSecret) -> None:
    async with open_editor(secret) as first, open_editor(secret) as second, open_editor(secret) as third:
        await first.initialize()
        await second.initialize()

        assert await third.wait_closed() == 4429


async def test_it_ends_when_nothing_was_sent_for_long(
    service: Service, monkeypatch: pytest.MonkeyPatch, secret: SessionSecret
) -> None:
    monkeypatch.setattr(app_module, "EditorSockets", partial(EditorSockets, EditorLimits(idle=0.2)))
    async with listen(service, "127.0.0.1", 0) as port, connect_editor(port, secret) as editor:
        assert await editor.wait_closed() == 4408


def test_whoever_sends_more_than_the_burst_waits() -> None:
    tokens = MessageTokens(EditorLimits(burst=2, per_second=10), now=0.0)

    assert [round(tokens.take(at), 1) for at in (0.0, 0.0, 0.0, 0.0, 10.0)] == [0, 0, 0.1, 0.2, 0]
