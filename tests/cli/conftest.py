"""One installation, migrated and seeded, for all tests of commands that only need one to be there."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from bpc.runtime import clock, postgres
from tests.cli.program import Program


@dataclass(frozen=True, slots=True)
class Installation:
    """A running, seeded installation. Tests share it, so each works in tenants of its own."""

    bpc: Program
    server: postgres.EmbeddedServer
    api_key: str
    tenant_id: str

    def execute(self, sql: str, *, database: str = "bpc") -> None:
        """Do what only the database's own administrator can."""
        asyncio.run(self._execute(sql, database))

    async def _execute(self, sql: str, database: str) -> None:
        conn = await asyncpg.connect(**self.server.superuser_address(database).connect_arguments())
        try:
            await conn.execute(sql)
        finally:
            await conn.close()


@pytest.fixture(scope="session")
def installation(run_folder: Path) -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="cli-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    bpc = Program(folder)
    with postgres.use_server(folder) as server:  # held, so that not every command starts it anew
        bpc.run_ok("migrate")
        # Without the shipped rules, whose tests take seconds.
        seeded = bpc.run_ok("seed", "--no-rules", "--json").json()
        yield Installation(bpc, server, seeded["api_key"], seeded["tenant_id"])


@pytest.fixture
def bpc_without_tables(installation: Installation, data_dir: Path) -> Program:
    """The program with a database of its own that has no tables yet, on the server that runs already."""
    name = f"bare_{clock.new_id().hex}"
    installation.execute(f"CREATE DATABASE {name} OWNER bpc_owner", database="postgres")
    return Program(data_dir, {"DATABASE_URL": str(installation.server.address(name))})


@pytest.fixture
def bpc(data_dir: Path) -> Program:
    """The program on a machine where nothing has been made yet."""
    return Program(data_dir)
