"""The API dies between commit and reply: whoever sends the request again gets the answer of what was done.

The API runs in a process that is killed with SIGKILL, again and again. Its parent imports everything once and forks the
next one; the listening socket is the parent's, so a client that comes in between waits.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import Any
from uuid import UUID

import httpx2
import orjson
import pytest
import pytest_asyncio
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bpc.api.http.app import create_app
from bpc.api.http.server import open_service
from bpc.core.audit.signing import Signer
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.database import open_database
from tests.api.conftest import KEY_ID, PEPPERS, SEED, Api
from tests.api.filled_tenants import TwoTenantApp
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parents[3]
KILLS = choose_effort(test=5, shown=50, campaign=200)
DIE = "x-die"  # which of the moments below, and after how many milliseconds
# Before anything is done; when the answer is about to leave; between its head and its body.
BEFORE, AT_START, AT_BODY = "before", "http.response.start", "http.response.body"
COUNTS = """
    SELECT (SELECT count(*) FROM document_versions WHERE document_id = $1) AS versions,
           (SELECT count(*) FROM events WHERE event_type = 'DOCUMENT_UPLOADED') AS events,
           (SELECT count(*) FROM jobs.job WHERE type = 'PARSE_FACTS' AND status = 'QUEUED') AS jobs
"""


class CrashingApp:
    """Around the application: kills this process at the moment a request names, with what it has sent still unsent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        crash_point = dict(scope.get("headers", ())).get(DIE.encode(), b"never 0").decode()
        moment, _, milliseconds = crash_point.partition(" ")

        async def dying(message: Message) -> None:
            if message["type"] == moment:
                await asyncio.sleep(int(milliseconds) / 1000)  # how wide the window is, not how long we wait
                os.kill(os.getpid(), signal.SIGKILL)
            await send(message)

        if moment == BEFORE:
            asyncio.get_running_loop().call_later(int(milliseconds) / 1000, os.kill, os.getpid(), signal.SIGKILL)
        await self.app(scope, receive, dying)


async def serve(config: dict[str, Any], listening: socket.socket) -> None:
    """The API on a socket, until somebody kills it."""
    database = await open_database(Address(**config["address"]), pool_size=5)
    settings = Settings(env="test", data_dir=Path(config["data_dir"]), signing_key_id=KEY_ID)
    signer = Signer(SEED)
    async with open_service(
        settings, database, peppers=PEPPERS, key_ring=KeyRing({settings.signing_key_id: signer})
    ) as service:
        app = CrashingApp(create_app(service))
        await uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).serve(sockets=[listening])


def keep_serving(config: dict[str, Any]) -> None:
    """Serve in one child after the other, each until its death."""
    listening = socket.socket(fileno=config["socket"])
    while True:
        child = os.fork()
        if child == 0:
            asyncio.run(serve(config, listening))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit("the API ended by itself")


@asynccontextmanager
async def open_crashing_api(two_tenants: TwoTenantApp, folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an API that dies and comes back."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        address = two_tenants.address
        config = {
            "address": {name: getattr(address, name) for name in address.__dataclass_fields__},
            "data_dir": str(folder),
            "socket": listening.fileno(),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.http.test_crashes", orjson.dumps(config).decode()],
            cwd=ROOT,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
                yield client
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # our own session: the parent and its only child
            process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crashing_api(two_tenants: TwoTenantApp, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with open_crashing_api(two_tenants, tmp_path_factory.mktemp("mortal")) as client:
        yield Api(client, two_tenants.own.clients["Admin"].key)


@pytest.mark.parametrize("moments", [(AT_START, AT_BODY), (BEFORE,)], ids=["between commit and reply", "at any moment"])
async def test_what_is_sent_again_after_a_crash_has_one_effect_and_its_first_answer(
    two_tenants: TwoTenantApp, crashing_api: Api, record_measurement: RecordMeasurement, moments: tuple[str, ...]
) -> None:
    chance, document = Random(7), two_tenants.own.ids["document_id"]
    path = f"/v1/documents/{document}/versions"
    before = await _read_counts(two_tenants, document)
    done = 0
    for number in range(KILLS):
        key = str(clock.new_id())
        body = {"mime_type": "text/plain", "content_base64": b64encode(key.encode()).decode()}
        await _send_until_crash(crashing_api, path, body, key, f"{chance.choice(moments)} {chance.randrange(30)}")
        stored = await _read_stored_answer(two_tenants, key)
        done += stored is not None

        first = await crashing_api.post(path, body, idempotency_key=key)
        again = await crashing_api.post(path, body, idempotency_key=key)

        assert first.status_code == 201, (number, first.text)
        assert (again.content, again.headers["content-type"]) == (first.content, first.headers["content-type"])
        assert stored in {None, first.content}, "the answer that never left is the one that is given now"

    after = await _read_counts(two_tenants, document)
    assert [now - then for now, then in zip(after, before, strict=True)] == [KILLS, KILLS, KILLS]
    if BEFORE not in moments:
        assert done == KILLS, "each was killed after its commit"
        record_measurement("api-crashes", kills=KILLS, lost=0, double_effects=0)


async def _send_until_crash(api: Api, path: str, body: dict[str, str], key: str, moment: str) -> None:
    """Send a request that its server does not survive."""
    with pytest.raises(httpx2.TransportError):
        while True:  # one that is to die at any moment may just have answered
            await api.post(path, body, idempotency_key=key, headers={DIE: moment})


async def _read_stored_answer(two_tenants: TwoTenantApp, key: str) -> bytes | None:
    """The answer that was kept, if the request was done."""
    stored_body: bytes | None = await two_tenants.superuser.fetchval(
        "SELECT response_body FROM idempotency_keys WHERE key = $1", key
    )
    return stored_body


async def _read_counts(two_tenants: TwoTenantApp, document: str) -> list[int]:
    row = await two_tenants.superuser.fetchrow(COUNTS, UUID(document))
    assert row is not None
    return list(row)


if __name__ == "__main__":
    keep_serving(orjson.loads(sys.argv[1]))
