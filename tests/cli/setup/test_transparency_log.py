"""`bpc log`: the audit names the first difference, proofs are checked by others, a witness refuses forks."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import TenantId
from bpc.core.tlog.checkpoints import open_checkpoint
from bpc.core.tlog.merkle import check_inclusion, hash_leaf, make_consistency_proof
from bpc.core.tlog.notes import VerifierKey, parse_note
from bpc.core.tlog.proofs import parse_log_proof
from bpc.core.tlog.tiles import TileTree
from bpc.core.tlog.witness import WitnessRequest
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import open_database
from bpc.storage.tlog.log_files import LogFolder
from bpc.tasks.log_sequencer import make_sequencer
from bpc.tasks.log_time_stamps import stamp_checkpoint
from tests.cli.conftest import Installation
from tests.cli.program import Program, start_command
from tests.storage.tlog.log_fixtures import append_signed_events, check_entries
from tests.tasks.stamp_authority import make_certificates, run_authority


@dataclass(frozen=True, slots=True)
class LoggedInstallation:
    """An installation with a log of its own, and the means of an intruder."""

    bpc: Program
    installation: Installation
    database: str
    versions: list[str]

    @property
    def folder(self) -> Path:
        return self.bpc.data_dir / "log"

    def read_key(self) -> str:
        return self.bpc.run_ok("log", "key").out.strip()

    def tamper(self, sql: str) -> None:
        self.installation.execute(f"SET session_replication_role = replica; {sql}", database=self.database)

    def append(self, count: int) -> None:
        asyncio.run(_append(self, count))


async def _append(logged: LoggedInstallation, count: int) -> None:
    address = logged.installation.server.address(logged.database)
    database = await open_database(address, pool_size=2)
    try:
        async with database.system() as conn:
            tenants = {tenant.slug: tenant.tenant_id for tenant in await tenants_and_actors.list_tenants(conn)}
        act = Act(None, clock.now())
        if "acme" not in tenants:
            tenants["acme"] = await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=act)
        versions = await append_signed_events(database, TenantId(tenants["acme"]), act, count)
        logged.versions.extend(map(str, versions))
        logged.folder.mkdir(parents=True, exist_ok=True)
        settings = Settings(data_dir=logged.bpc.data_dir, env="test")
        sequencer = make_sequencer(settings, database)
        assert sequencer is not None
        await sequencer.run_once()
    finally:
        await database.close()


@pytest.fixture
def logged(installation: Installation, bpc_without_tables: Program) -> LoggedInstallation:
    bpc_without_tables.run_ok("migrate")
    name = Address.parse(bpc_without_tables.settings["DATABASE_URL"]).database
    installation_with_log = LoggedInstallation(bpc_without_tables, installation, name, [])
    installation_with_log.append(300)
    return installation_with_log


def test_an_intact_log_is_audited_with_its_database(logged: LoggedInstallation, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes((logged.folder / "checkpoint").read_bytes())
    logged.append(5)

    report = logged.bpc.run_ok("log", "audit", "--checkpoint", kept, "--json").json()

    assert report["ok"]
    assert (report["size"], report["events"], report["earlier_checkpoints"]) == (305, 305, 1)
    assert "305 entries" in logged.bpc.run_ok("log", "audit").out


@pytest.mark.parametrize(
    ("sql", "where", "says"),
    [
        ("UPDATE log_entries SET entry = '\\x00' WHERE log_index = 7", "entry 7", "another entry"),
        ("DELETE FROM log_entries WHERE log_index >= 290", "entry 290", "the database lacks"),
        ("UPDATE log_openings SET salt = sha256('') WHERE log_index = 8", "entry 8", "gives another entry"),
        ("UPDATE events SET event_hash = sha256('') WHERE event_type = 'PASSPORT_SIGNED'", "entry 0", "was changed"),
        ("DELETE FROM events WHERE event_type = 'PASSPORT_SIGNED'", "entry 0", "is gone, and no retention"),
    ],
)
def test_what_was_changed_in_the_database_is_named(logged: LoggedInstallation, sql: str, where: str, says: str) -> None:
    logged.tamper(sql)

    result = logged.bpc.run("log", "audit", "--json")

    assert result.code == 1
    assert result.json()["where"] == where
    assert says in result.json()["fault"]


def test_a_changed_file_and_a_rolled_back_log_are_named(logged: LoggedInstallation, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes((logged.folder / "checkpoint").read_bytes())
    logged.append(1)
    newer = tmp_path / "newer"
    newer.write_bytes((logged.folder / "checkpoint").read_bytes())
    arguments = ("--log", str(logged.folder), "--key", logged.read_key())
    logged.bpc.run_ok("log", "audit", *arguments, "--checkpoint", str(kept))

    (logged.folder / "checkpoint").write_bytes(kept.read_bytes())
    rolled_back = logged.bpc.run("log", "audit", *arguments, "--checkpoint", str(newer))
    assert rolled_back.code == 1
    assert "it was rolled back" in rolled_back.out

    tile = logged.folder / "tile/entries/000"
    tile.chmod(0o644)
    tile.write_bytes(tile.read_bytes().replace(b"\x01", b"\x02", 3))
    changed = logged.bpc.run("log", "audit", *arguments)
    assert changed.code == 1
    assert "The log is not what it should be" in changed.out


def test_a_proof_is_written_and_shows_the_entry(logged: LoggedInstallation, tmp_path: Path) -> None:
    out = tmp_path / "entry.tlog-proof"
    logged.bpc.run_ok("log", "prove", "17", "--out", out)

    proof = parse_log_proof(out.read_bytes())
    checkpoint = open_checkpoint(proof.checkpoint, VerifierKey.parse(logged.read_key())).checkpoint
    entry = check_entries(logged.folder)[17]
    check_inclusion(hash_leaf(entry), 17, 300, proof.hashes, checkpoint.root)

    stored = logged.bpc.run_ok("log", "prove", logged.versions[3], "--tenant", "acme").out
    assert stored.startswith("c2sp.org/tlog-proof@v1\nextra ")
    pending = logged.bpc.run("log", "prove", str(clock.new_id()), "--tenant", "acme")
    assert pending.code == 1
    assert "log: pending" in pending.err
    missing = logged.bpc.run("log", "prove", "300")
    assert "entry 300 is not in a log of 300 entries" in missing.err


def test_a_served_folder_is_audited_from_afar(logged: LoggedInstallation, bpc: Program) -> None:
    with start_command(bpc, "log", "serve", "--folder", str(logged.folder), "--port", "0") as (_, said):
        report = bpc.run_ok("log", "audit", "--log", said["url"], "--key", logged.read_key(), "--json").json()
        assert (report["ok"], report["size"], report["events"]) == (True, 300, None)
        bpc.run_ok("log", "prove", "0", "--log", said["url"], "--key", logged.read_key())
        assert httpx2.get(f"{said['url']}/nothing").status_code == 404
        assert httpx2.post(f"{said['url']}/checkpoint").status_code == 404


def test_the_time_stamp_of_an_authority_is_checked_here_and_from_afar(
    logged: LoggedInstallation, bpc: Program, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    with run_authority() as authority:
        roots = tmp_path / "authority.pem"
        roots.write_bytes(authority.root_file.read_bytes())
        none_yet = logged.bpc.run("log", "audit", "--timestamp-ca", roots)
        settings = Settings(data_dir=logged.bpc.data_dir, env="test")
        asyncio.run(stamp_checkpoint(settings, authority.url, LogFolder(logged.folder)))
    logged.append(1)

    here = logged.bpc.run_ok("log", "audit", "--timestamp-ca", roots)
    with start_command(bpc, "log", "serve", "--folder", str(logged.folder), "--port", "0") as (_, said):
        afar = ("log", "audit", "--log", said["url"], "--key", logged.read_key(), "--json")
        report = bpc.run_ok(*afar, "--timestamp-ca", roots).json()
        other = bpc.run(*afar, "--timestamp-ca", tmp_path / "root.pem")

    assert none_yet.code == 1
    assert "the time stamp: the log has none" in none_yet.out
    assert "the first 300 entries existed by 20" in here.out
    assert (report["size"], report["time_stamp"]["size"]) == (301, 300)
    assert other.code == 1
    assert "is not one of an authority that you trust" in other.out


def test_a_witness_runs_alone_and_refuses_a_fork(logged: LoggedInstallation, bpc: Program, tmp_path: Path) -> None:
    state = tmp_path / "witness"
    options = ("log", "witness", "--name", "example.org/w1", "--log", logged.read_key(), "--state", str(state))
    key = VerifierKey.parse(logged.read_key())
    with start_command(bpc, *options, "--port", "0") as (process, said):
        first = send(said["url"], logged, 0)
        assert first.status_code == 200
        assert first.text.count("— example.org/w1 ") == 2
        again = send(said["url"], logged, 0)
        assert (again.status_code, again.text, again.headers["content-type"]) == (409, "300\n", "text/x.tlog.size")
        note = parse_note(httpx2.get(f"{said['url']}/{sha256(key.name.encode()).hex()}/checkpoint").content)
        assert len(note.signatures) == 3
        assert httpx2.get(f"{said['url']}/other").status_code == 404
        process.terminate()
        assert process.wait(timeout=30) == 0
    with start_command(bpc, *options, "--port", "0") as (_, said):
        assert send(said["url"], logged, 300).status_code == 200
        assert len(json.dumps(said["verifier_keys"])) > 100


def send(url: str, logged: LoggedInstallation, old_size: int) -> httpx2.Response:
    note = parse_note((logged.folder / "checkpoint").read_bytes())
    tree = TileTree(300, LogFolder(logged.folder).read_tile)
    request = WitnessRequest(old_size=old_size, proof=make_consistency_proof(old_size, 300, tree.read), note=note)
    return httpx2.post(f"{url}/add-checkpoint", content=request.encode())


def test_what_is_missing_is_said(bpc: Program, tmp_path: Path) -> None:
    assert (
        "there is no log at"
        in bpc.run("log", "audit", "--log", str(tmp_path), "--key", bpc.run_ok("log", "key").out).err
    )
    assert "--log needs --key" in bpc.run("log", "prove", "1", "--log", "x").err
    assert "needs --tenant" in bpc.run("log", "prove", "x").err
