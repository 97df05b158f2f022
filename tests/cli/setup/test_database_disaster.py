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
from tests.jobs.faults.fault_database import create_random

from bpc.runtime import clock, postgres
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import Layout, find_running_postmaster
from bpc.storage import backup as manifest
from tests.cli import program as running
from tests.cli.conftest import Installation
from tests.cli.passport_load import PassportLoad, run_passport_load
from tests.cli.program import Program, is_stopped, wait_until
from tests.measurements import RecordMeasurement, choose_effort

PASSPORTS: Final = choose_effort(test=12, shown=5_000, campaign=20_000)
DUMPED: Final = choose_effort(test=4, shown=1_000, campaign=5_000)
FLIPS: Final = choose_effort(test=2, shown=25, campaign=100)
PATIENCE: Final = choose_effort(test=120, shown=1_800, campaign=7_200)
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
def longer_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SECONDS", PATIENCE)


@pytest.fixture
def safe_folder(run_folder: Path) -> Iterator[Path]:
    """A folder that outlives the machine."""
    folder = Path(tempfile.mkdtemp(prefix="kept-", dir=run_folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def other_data_dir(run_folder: Path) -> Iterator[Path]:
    """The data directory of another machine, on which nothing is yet."""
    folder = Path(tempfile.mkdtemp(prefix="elsewhere-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    yield folder
    wait_until(lambda: is_stopped(folder))
    shutil.rmtree(folder)


@pytest.fixture
def two_databases(installation: Installation) -> Iterator[tuple[str, str]]:
    """The names of two that are empty: one to lose, and one for what comes back."""
    name = f"lost_{clock.new_id().hex[-8:]}"
    names = name, f"{name}_again"
    try:
        for database_name in names:
            installation.execute(f"CREATE DATABASE {database_name} OWNER bpc_owner", database="postgres")
        yield names
    finally:
        for database_name in names:
            installation.execute(f"DROP DATABASE IF EXISTS {database_name} WITH (FORCE)", database="postgres")


@pytest.mark.repeats
@pytest.mark.long
def test_a_lost_machine_comes_back_with_every_byte_that_was_backed_up(
    bpc: Program,
    other_data_dir: Path,
    safe_folder: Path,
    record_measurement: RecordMeasurement,
    request: pytest.FixtureRequest,
) -> None:
    with postgres.use_server(bpc.data_dir) as server:  # the workers keep it running from then on
        bpc.run_ok("migrate")
        tenant = UUID(bpc.run_ok("seed", "--no-rules", "--json").json()["tenant_id"])
        address, superuser = server.address("bpc"), server.superuser_address("bpc")
        loss = MachineLoss(bpc, PASSPORTS, safe_folder)
        asyncio.run(loss.run(address, superuser, tenant, lambda: _destroy_machine(bpc.data_dir), server.release))
    assert not bpc.data_dir.exists()
    other = Program(other_data_dir)

    _assert_flip_refused(other, loss.backup, create_random(request.node.name))
    restored = other.run_ok("restore", loss.backup, "--replay", str(MANY), "--json").json()

    with postgres.use_server(other_data_dir) as again:
        artifacts = asyncio.run(_load_artifacts(again.superuser_address("bpc")))
        loss.check_restored(restored, artifacts, other)
    record_measurement("disaster", flips=FLIPS, flips_accepted=0, **loss.list_figures(restored))


@pytest.mark.repeats
@pytest.mark.long
def test_another_server_that_is_lost_comes_back_from_its_dump(
    installation: Installation,
    two_databases: tuple[str, str],
    bpc: Program,
    other_data_dir: Path,
    safe_folder: Path,
    record_measurement: RecordMeasurement,
) -> None:
    lost, _ = two_databases
    address, other_address = (installation.server.superuser_address(database_name) for database_name in two_databases)
    here, other = (
        bpc.with_settings(DATABASE_URL=str(address)),
        Program(other_data_dir, {"DATABASE_URL": str(other_address)}),
    )
    here.run_ok("migrate")
    tenant = UUID(here.run_ok("seed", "--no-rules", "--json").json()["tenant_id"])
    loss = MachineLoss(here, DUMPED, safe_folder)

    def gone() -> None:
        installation.execute(f"DROP DATABASE {lost} WITH (FORCE)", database="postgres")

    asyncio.run(loss.run(address, address, tenant, gone))
    restored = other.run_ok("restore", loss.backup, "--replay", str(MANY), "--json").json()

    loss.check_restored(restored, asyncio.run(_load_artifacts(other_address)), other)
    record_measurement("disaster-dump", **loss.list_figures(restored))


class MachineLoss:
    """An installation at work, a backup of it, and its end; and what was there before and after the backup."""

    def __init__(self, bpc: Program, passports: int, folder: Path) -> None:
        self.bpc, self.passports, self.folder = bpc, passports, folder
        self.backup = Path()
        self.size = 0
        self.seconds = 0.0
        self.before: Artifacts = {}
        self.after: Artifacts = {}
        self.checkpoints = folder / "before.json", folder / "after.json"

    async def run(
        self,
        address: Address,
        superuser: Address,
        tenant: UUID,
        gone: Callable[[], None],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        async with _connect(superuser) as conn, run_passport_load(self.bpc, address, conn, tenant) as issuer:
            ready()
            for start in range(0, self.passports, 250):
                await issuer.request(min(250, self.passports - start))
            await issuer.wait_until_active()
            self.before = await _load_artifacts(superuser)
            async with _run_load(issuer) as load:
                await asyncio.to_thread(self._checkpoint, self.checkpoints[0])
                await asyncio.to_thread(self._back_up)
                at_the_end = issuer.requested
                while issuer.requested < at_the_end + 6 and not load.done():  # done after the backup, and to be missed
                    await asyncio.sleep(0.01)
                self.after = await _load_artifacts(superuser)
                await asyncio.to_thread(self._checkpoint, self.checkpoints[1])
                assert not load.done(), load
                issuer.kill()
                await asyncio.to_thread(gone)

    def check_restored(self, restored: dict[str, Any], artifacts: Artifacts, other: Program) -> None:
        """What was there before the backup is there; what is there was there when it had ended; all of it holds."""
        assert (restored["ok"], restored["faults"], restored["mismatches"]) == (True, 0, []), restored
        assert len([one for one in self.before if one[0] == "qr"]) == self.passports
        assert {one: artifacts.get(one) for one in self.before} == self.before
        assert {one: self.after.get(one) for one in artifacts} == artifacts
        signed = [one for one in artifacts if one[0] == "signature"]
        assert restored["replayed"] == len(signed) >= self.passports
        assert restored["events"] == len([one for one in artifacts if one[0] == "event"])
        at_the_backup, later = self.checkpoints
        assert other.run_ok("audit", "verify", "--checkpoint", at_the_backup, "--json").json()["ok"]
        missed = other.run("audit", "verify", "--checkpoint", later, "--json")
        assert (missed.code, missed.json()["ok"]) == (1, False), "what came after the backup is missed by a checkpoint"

    def list_figures(self, restored: dict[str, Any]) -> dict[str, Any]:
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
        self.bpc.run_ok("audit", "checkpoint", "--tenant", "dev", "--out", file)

    def _back_up(self) -> None:
        started = time.monotonic()
        backup = self.bpc.run_ok("backup", "--to", self.folder / "backups", "--with-keys", "--json").json()
        self.seconds = time.monotonic() - started
        self.backup, self.size = Path(backup["backup"]), backup["bytes"]


def _assert_flip_refused(other: Program, backup: Path, chance: Any) -> None:
    """Anywhere in the backup: the file is named, and nothing has been written."""
    files = sorted(path for path in manifest.read_manifest(backup).files if (backup / path).stat().st_size)
    for _ in range(FLIPS):
        [name] = chance.choices(files, weights=[(backup / path).stat().st_size for path in files])
        at, bit = chance.randrange((backup / name).stat().st_size), 1 << chance.randrange(8)
        _flip_bit(backup / name, at, bit)
        refused = other.run("restore", backup)
        _flip_bit(backup / name, at, bit)
        assert (refused.code, f"`{name}` was changed" in refused.err) == (1, True), (name, at, bit, refused)
        assert list(other.data_dir.iterdir()) == []


def _flip_bit(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        [byte] = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ bit]))


def _destroy_machine(data_dir: Path) -> None:
    """`kill -9` of the server and of whoever would start it again, and all their files."""
    server = find_running_postmaster(Layout(data_dir).find_cluster_folder())
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
async def _run_load(issuer: PassportLoad) -> AsyncIterator["asyncio.Task[None]"]:
    """People who go on working, until there is nothing left to work with."""
    stopped = asyncio.Event()
    working = asyncio.create_task(issuer.request_until(stopped))
    try:
        yield working
    finally:
        stopped.set()
        working.cancel()
        await asyncio.wait([working])


@asynccontextmanager
async def _connect(address: Address) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    conn = await asyncpg.connect(**address.connect_arguments())
    try:
        yield conn
    finally:
        conn.terminate()


async def _load_artifacts(address: Address) -> Artifacts:
    """The hash of everything that must come back as it was."""
    artifacts: Artifacts = {}
    async with _connect(address) as conn, conn.transaction(isolation="repeatable_read", readonly=True):
        for kind, query in ARTIFACTS.items():
            artifacts |= {(kind, which): digest for which, digest in await conn.fetch(query)}
    return artifacts
