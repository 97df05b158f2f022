"""A file server, and a download from it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.jobs.download.download_scenario import CONTENT, DownloadScenario, RecordingBackend
from tests.jobs.support.file_server import FileServer


@pytest.fixture
async def downloads(tmp_path: Path) -> AsyncIterator[DownloadScenario]:
    async with FileServer(CONTENT) as server:
        yield DownloadScenario(server, tmp_path / "file.bin", RecordingBackend())
