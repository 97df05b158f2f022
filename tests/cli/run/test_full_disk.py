"""A full disk, for real, which is a small file system in memory: writes are refused, reads go on, and all returns."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from bpc.runtime import clock
from bpc.runtime.postgres.cluster import Layout, find_running_postmaster
from tests.cli.program import Program, start_command, wait_until

DISK_BYTES: Final = 450_000_000
LEFT_BYTES: Final = 12_000_000  # less than the next segment of the server's write-ahead log

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture
def disk(run_folder: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="disk-", dir=run_folder))
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(command, check=False).returncode != 0:
        pytest.skip("only root can mount a small file system, and not in every container")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path, leave: int) -> None:
    """Fill the disk but for some bytes; 0 is to the last one."""
    with path.open("wb", buffering=0) as file:
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(path.parent).free - leave))
        while not leave:
            try:
                file.write(bytes(4096))
            except OSError:
                return


class Service:
    """The running API, asked as a monitor, a reader and a writer would."""

    def __init__(self, http: httpx2.Client, key: str) -> None:
        self.http = http
        self.headers = {"Authorization": f"Bearer {key}"}

    def ask(self) -> tuple[int, int, int, int]:
        """The statuses of readiness, readiness for reads, a read and a write."""
        read = self.http.get("/v1/documents?limit=1", headers=self.headers).status_code
        ready, reads = (self.http.get(f"/v1/health/{name}").status_code for name in ("ready", "reads"))
        return ready, reads, read, self.write().status_code

    def write(self) -> httpx2.Response:
        headers = {**self.headers, "Idempotency-Key": str(clock.new_id())}
        return self.http.post("/v1/documents", json={"kind": "BOM"}, headers=headers)

    def upload(self, size: int) -> str | None:
        headers = {**self.headers, "Idempotency-Key": str(clock.new_id()), "Content-Type": "application/octet-stream"}
        path = f"/v1/documents/by-ref/{clock.new_id()}?kind=OTHER"
        answer = self.http.put(path, content=clock.random_bytes(size), headers=headers)
        return str(answer.json()["document_version_id"]) if answer.status_code == 201 else None


@contextmanager
def _start(bpc: Program) -> Iterator[Service]:
    with start_command(bpc, "up", "--port", "0") as (_, line):
        address: dict[str, Any] = line
        with httpx2.Client(base_url=address["url"], timeout=60) as http:
            yield Service(http, address["api_key"])


GOOD: Final = (200, 200, 200, 201)
READ_ONLY: Final = (503, 200, 200, 503)


def test_a_full_disk_refuses_writes_keeps_reads_and_loses_nothing(disk: Path) -> None:
    data = disk / "data"
    data.mkdir()
    layout = Layout(data)
    with _start(Program(data)) as service:
        wait_until((data / "postgres.reserve").exists)
        acknowledged = [service.upload(500_000) for _ in range(4)]
        assert service.ask() == GOOD

        # Nearly full: the server's log of changes could not grow any more.
        _fill(disk / "filler", LEFT_BYTES)
        acknowledged += [service.upload(700_000) for _ in range(20)]
        wait_until(lambda: service.ask() == READ_ONLY)
        details = service.http.get("/v1/health/ready").json()["error"]["details"]
        assert details["checks"]["writes"] == "FAILED"

        # To the last byte, and the server is killed meanwhile.
        _fill(disk / "more", 0)
        assert service.ask() == READ_ONLY
        postmaster = find_running_postmaster(layout.find_cluster_folder())
        assert postmaster is not None
        os.kill(postmaster.pid, signal.SIGKILL)
        wait_until(lambda: service.ask() == READ_ONLY)
        for _ in range(20):
            assert service.write().status_code == 503

        (disk / "filler").unlink()
        (disk / "more").unlink()
        wait_until(lambda: service.ask() == GOOD)
        versions = [version for version in acknowledged if version is not None]
        contents = [f"/v1/document-versions/{version}/content" for version in versions]
        assert {service.http.get(path, headers=service.headers).status_code for path in contents} == {200}
        assert Program(data).run("audit", "verify", "--tenant", "dev").code == 0
    assert len(versions) >= 4
