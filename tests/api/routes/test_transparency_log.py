"""/log/…: everybody reads the log, without a key; tiles may be kept for ever, a checkpoint for seconds."""

from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.settings import Settings
from bpc.storage.database import Database
from tests.storage.tlog.log_fixtures import append_signed_events, make_sequencer


@pytest.fixture
async def http(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test")


async def test_the_log_is_served_to_everybody(
    http: httpx2.AsyncClient, settings: Settings, database: Database, tenant: TenantId, act: Act
) -> None:
    assert (await http.get("/log/checkpoint")).status_code == 404
    await append_signed_events(database, tenant, act, 300)
    folder = settings.data_dir / "log"
    await make_sequencer(database, folder).run_once()

    checkpoint = await http.get("/log/checkpoint")
    assert checkpoint.content == (folder / "checkpoint").read_bytes()
    assert checkpoint.headers["content-type"] == "text/plain; charset=utf-8"
    assert checkpoint.headers["cache-control"] == "public, max-age=2"
    paths = [str(path.relative_to(folder)) for path in folder.glob("tile/**/*") if path.is_file()]
    assert "tile/entries/001.p/" in "".join(paths)
    for path in paths:
        answer = await http.get(f"/log/{path}")
        assert answer.content == (folder / path).read_bytes()
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        *("tile/0/999", "tile/0/000.p/7", "tile/64/000", "tile/0/..%2f..%2fcheckpoint"),
        *("tile/", "tile/entries", "other", "tile/0/000/x", ".sequencer.lock", "tile/0/%00"),
    ],
)
async def test_nothing_else_is(http: httpx2.AsyncClient, settings: Settings, path: str) -> None:
    (settings.data_dir / "log").mkdir(parents=True)
    (settings.data_dir / "log" / "checkpoint").write_bytes(b"note")
    (settings.data_dir / "log" / ".sequencer.lock").touch()

    assert (await http.get(f"/log/{path}")).status_code == 404
    assert Path(settings.data_dir, "log").exists()
