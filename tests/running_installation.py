"""One `bpc up` for all tests that only need a service to be there."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bpc.runtime import clock
from tests.cli.program import Program, start_command


@dataclass(frozen=True, slots=True)
class RunningInstallation:
    """`bpc` beside a service that tests share, so each works in a tenant of its own.

    The service may fetch files from `supplier_folder`, and send webhooks to this machine.
    """

    bpc: Program
    supplier_folder: Path

    def create_tenant(self) -> Program:
        """Create a tenant; return the program with its address and the key of its administrator."""
        slug = f"tenant-{clock.new_id().hex[-12:]}"
        self.bpc.run_ok("tenant", "create", slug)
        key = self.bpc.run_ok("apikey", "create", "--tenant", slug, "--role", "Admin", "--json").json()["api_key"]
        return self.bpc.with_settings(BPC_API_KEY=key)


@pytest.fixture(scope="session")
def running_installation(run_folder: Path) -> Iterator[RunningInstallation]:
    folder = Path(tempfile.mkdtemp(prefix="running-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    supplier_folder = folder / "supplied"
    supplier_folder.mkdir()
    # Nobody reads its log here, and a pipe holds little.
    program = Program(folder, {"BPC_LOG_LEVEL": "warn", "BPC_OUTBOUND_ALLOW": f"{supplier_folder},127.0.0.1"})
    with start_command(program, "up", "--port", "0") as (_, ready):
        yield RunningInstallation(program.with_settings(BPC_URL=ready["url"]), supplier_folder)
