"""A machine is lost, and everything on it: what was backed up while it worked comes back, every byte of it.

A backup with one flipped byte does not come back at all.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import psutil
import pytest

from bpc import fresh
from bpc.db import embedded
from bpc.db.address import Address
from bpc.db.backup import manifest
from bpc.db.embedded.layout import Layout, running_postmaster
from tests.cli import program as running
from tests.cli.conftest import Installation
from tests.cli.issuing import Issuer, issuing
from tests.cli.program import Program, nothing_runs, wait_until
from tests.jobs.faults.ground import seeded
from tests.measuring import Measured, effort

PASSPORTS: Final = effort(test=12, shown=5_000, campaign=20_000)
DUMPED: Final = effort(test=4, shown=1_000, campaign=5_000)
FLIPS: Final = effort(test=2, shown=25, campaign=100)
PATIENCE: Final = effort(test=120, shown=1_800, campaign=7_200)
MANY: Final = 10**6  # more than there are: all of them

# Each is written once and never changes: what there is of a version, and all that it stands on.
ARTIFACTS: Final = {
    "payload": "SELECT passport_version_id::text, sha256(payload_canonical) FROM passport_versions",
    "proof": "SELECT passport_version_id::text, sha256(proof_canonical) FROM passport_versions",
    "receipt": "SELECT passport_version_id::text, sha256(receipt_canonical) FROM passport_versions"
    " WHERE signature IS NOT NULL",
    "signature": "SELECT passport_version_id::text, sha256(signature) FROM passport_versions"
    " WHERE signature IS NOT NULL",
    "qr": "SELECT passport_version_id::text, sha256(qr_png || convert_to(qr_payload, 'UTF8')) FROM passport_versions"
    " WHERE qr_png IS NOT NULL",
    "snapshot": "SELECT snapshot_id::text, sha256(snapshot_canonical) FROM data_snapshots WHERE status = 'SEALED'",
    "item": "SELECT concat_ws('/', snapshot_id, fact_id), sha256(uuid_send(snapshot_id) || uuid_send(fact_id))"
    "  FROM snapshot_items",
    "fact": "SELECT fact_id::text, sha256(payload_canonical) FROM facts",
    "document": "SELECT document_version_id::text, sha256(content) FROM document_versions",
    "rules": "SELECT rule_package_version_id::text, sha256(dsl_source || tests_source) FROM rule_package_versions",
    "event": "SELECT event_id::text, sha256(event_hash || payload_canonical) FROM events",
}

Artifacts = dict[tuple[str, str], bytes]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SECONDS", PATIENCE)


@pytest.fixture
def kept(run_folder: Path) -> Iterator[Path]:
    """A folder that outlives the machine."""
    folder = Path(tempfile.mkdtemp(prefix="kept-", dir=run_folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def elsewhere(run_folder: Path) -> Iterator[Path]:
    """The data directory of another machine, on which nothing is yet."""
    folder = Path(tempfile.mkdtemp(prefix="elsewhere-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    yield folder
    wait_until(lambda: nothing_runs(folder))
    shutil.rmtree(folder)


@pytest.fixture
def two_databases(installation: Installation) -> Iterator[tuple[str, str]]:
    """The names of two that are empty: one to lose, and one for what comes back."""
    name = f"lost_{fresh.new_id().hex[:8]}"
    names = name, f"{name}_again"
    try:
        for each in names:
            installation.execute(f"CREATE DATABASE {each} OWNER bpc_owner", database="postgres")
        yield names
    finally:
        for each in names:
            installation.execute(f"DROP DATABASE IF EXISTS {each} WITH (FORCE)", database="postgres")


@pytest.mark.repeats
def test_a_lost_machine_comes_back_with_every_byte_that_was_backed_up(
    bpc: Program, elsewhere: Path, kept: Path, measured: Measured, request: pytest.FixtureRequest
) -> None:
    with embedded.use(bpc.data_dir) as server:  # the workers keep it running from then on
        bpc.ok("migrate")
        tenant = UUID(bpc.ok("seed", "--json").json()["tenant_id"])
        address, superuser = server.address("bpc"), server.superuser_address("bpc")
        loss = Loss(bpc, PASSPORTS, kept)
        asyncio.run(loss.happens(address, superuser, tenant, lambda: _machine_gone(bpc.data_dir), server.release))
    assert not bpc.data_dir.exists()
    other = Program(elsewhere)

    _refused_when_a_byte_is_flipped(other, loss.backup, seeded(request.node.name))
    restored = other.ok("restore", loss.backup, "--replay", str(MANY), "--json").json()

    with embedded.use(elsewhere) as again:
        found = asyncio.run(_artifacts_at(again.superuser_address("bpc")))
        loss.judge(restored, found, other)
    measured("disaster", flips=FLIPS, flips_accepted=0, **loss.figures(restored))


@pytest.mark.repeats
def test_another_server_that_is_lost_comes_back_from_its_dump(
    installation: Installation,
    two_databases: tuple[str, str],
    bpc: Program,
    elsewhere: Path,
    kept: Path,
    measured: Measured,
) -> None:
    lost, _ = two_databases
    address, other_address = (installation.server.superuser_address(each) for each in two_databases)
    here, other = bpc.having(DATABASE_URL=str(address)), Program(elsewhere, {"DATABASE_URL": str(other_address)})
    here.ok("migrate")
    tenant = UUID(here.ok("seed", "--json").json()["tenant_id"])
    loss = Loss(here, DUMPED, kept)

    def gone() -> None:
        installation.execute(f"DROP DATABASE {lost} WITH (FORCE)", database="postgres")

    asyncio.run(loss.happens(address, address, tenant, gone))
    restored = other.ok("restore", loss.backup, "--replay", str(MANY), "--json").json()

    loss.judge(restored, asyncio.run(_artifacts_at(other_address)), other)
    measured("disaster-dump", **loss.figures(restored))


class Loss:
    """An installation at work, a backup of it, and its end; and what was there before and after the backup."""

    def __init__(self, bpc: Program, passports: int, folder: Path) -> None:
        self.bpc, self.passports, self.folder = bpc, passports, folder
        self.backup = Path()
        self.size = 0
        self.seconds = 0.0
        self.before: Artifacts = {}
        self.after: Artifacts = {}
        self.checkpoints = folder / "before.json", folder / "after.json"

    async def happens(
        self,
        address: Address,
        superuser: Address,
        tenant: UUID,
        gone: Callable[[], None],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        async with _connected(superuser) as conn, issuing(self.bpc, address, conn, tenant) as issuer:
            ready()
            for asked in range(0, self.passports, 250):
                await issuer.ask(min(250, self.passports - asked))
            await issuer.over()
            self.before = await _artifacts_at(superuser)
            async with _load(issuer) as load:
                await asyncio.to_thread(self._checkpoint, self.checkpoints[0])
                await asyncio.to_thread(self._back_up)
                at_the_end = issuer.asked
                while issuer.asked < at_the_end + 6 and not load.done():  # done after the backup, and to be missed
                    await asyncio.sleep(0.01)
                self.after = await _artifacts_at(superuser)
                await asyncio.to_thread(self._checkpoint, self.checkpoints[1])
                assert not load.done(), load
                issuer.kill()
                await asyncio.to_thread(gone)

    def judge(self, restored: dict[str, Any], found: Artifacts, other: Program) -> None:
        """What was there before the backup is there; what is there was there when it had ended; all of it holds."""
        assert (restored["ok"], restored["faults"], restored["mismatches"]) == (True, 0, []), restored
        assert len([one for one in self.before if one[0] == "qr"]) == self.passports
        assert {one: found.get(one) for one in self.before} == self.before
        assert {one: self.after.get(one) for one in found} == found
        signed = [one for one in found if one[0] == "signature"]
        assert restored["replayed"] == len(signed) >= self.passports
        assert restored["events"] == len([one for one in found if one[0] == "event"])
        at_the_backup, later = self.checkpoints
        assert other.ok("audit", "verify", "--checkpoint", at_the_backup, "--json").json()["ok"]
        missed = other.run("audit", "verify", "--checkpoint", later, "--json")
        assert (missed.code, missed.json()["ok"]) == (1, False), "what came after the backup is missed by a checkpoint"

    def figures(self, restored: dict[str, Any]) -> dict[str, Any]:
        seconds = restored["seconds"]
        return {
            "passports": self.passports,
            "passports_replayed": restored["replayed"],
            "events": restored["events"],
            "artifacts_equal": len(self.before),
            "backup_megabytes": round(self.size / 1e6),
            "backup_under_load_seconds": round(self.seconds, 1),
            "checking_seconds": seconds["checking the files"],
            "putting_back_seconds": seconds["putting it back"],
            "audit_seconds": seconds["verifying the audit log"],
            "replay_seconds": seconds["compiling passports again"],
            "restore_seconds": seconds["all of it"],
        }

    def _checkpoint(self, file: Path) -> None:
        self.bpc.ok("audit", "checkpoint", "--tenant", "dev", "--out", file)

    def _back_up(self) -> None:
        started = time.monotonic()
        made = self.bpc.ok("backup", "--to", self.folder / "backups", "--with-keys", "--json").json()
        self.seconds = time.monotonic() - started
        self.backup, self.size = Path(made["backup"]), made["bytes"]


def _refused_when_a_byte_is_flipped(other: Program, backup: Path, chance: Any) -> None:
    """Anywhere in the backup: the file is named, and nothing has been written."""
    files = sorted(path for path in manifest.read(backup).files if (backup / path).stat().st_size)
    for _ in range(FLIPS):
        [name] = chance.choices(files, weights=[(backup / path).stat().st_size for path in files])
        at, bit = chance.randrange((backup / name).stat().st_size), 1 << chance.randrange(8)
        _flip(backup / name, at, bit)
        refused = other.run("restore", backup)
        _flip(backup / name, at, bit)
        assert (refused.code, f"`{name}` was changed" in refused.err) == (1, True), (name, at, bit, refused)
        assert list(other.data_dir.iterdir()) == []


def _flip(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        [byte] = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ bit]))


def _machine_gone(data_dir: Path) -> None:
    """`kill -9` of the server and of whoever would start it again, and all their files."""
    server = running_postmaster(Layout(data_dir).known_cluster())
    assert server is not None
    postmaster = psutil.Process(server.pid)
    keeper, sessions = postmaster.parent(), postmaster.children()
    assert keeper is not None
    assert "bpc" in " ".join(keeper.cmdline())
    for process in (keeper, postmaster, *sessions):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs([keeper, postmaster, *sessions], timeout=30)
    shutil.rmtree(data_dir)


@asynccontextmanager
async def _load(issuer: Issuer) -> AsyncIterator["asyncio.Task[None]"]:
    """People who go on working, until there is nothing left to work with."""
    stopped = asyncio.Event()
    working = asyncio.create_task(issuer.ask_until(stopped))
    try:
        yield working
    finally:
        stopped.set()
        working.cancel()
        await asyncio.wait([working])


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    conn = await asyncpg.connect(**address.connect_arguments())
    try:
        yield conn
    finally:
        conn.terminate()


async def _artifacts_at(address: Address) -> Artifacts:
    """The hash of everything that must come back as it was."""
    found: Artifacts = {}
    async with _connected(address) as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        for kind, query in ARTIFACTS.items():
            found |= {(kind, which): digest for which, digest in await conn.fetch(query)}
    return found
