"""The sequencer: every act that counts is in the log once, in one order, whatever fails while it writes."""

import errno
import os
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.events import Act
from bpc.core.audit.signing import Seed
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId
from bpc.core.tlog.checkpoints import open_checkpoint
from bpc.core.tlog.entries import read_readable_entry
from bpc.core.tlog.merkle import check_consistency, make_consistency_proof
from bpc.core.tlog.notes import NoteSigner
from bpc.core.tlog.tiles import TileTree
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_files import LogFolder, LogForked
from bpc.storage.tlog.sequencer import Sequencer, list_completed_tiles
from tests.storage.tlog.log_fixtures import SIGNER, append_signed_events, check_folder, make_sequencer


async def test_what_happens_is_in_the_log_once(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    versions = await append_signed_events(database, tenant, act, 3)
    versions += await append_signed_events(database, other_tenant, act, 2)
    sequencer = make_sequencer(database, tmp_path)

    report = await sequencer.run_once()

    assert (report.size, report.added, report.has_quorum) == (5, 5, True)
    assert await sequencer.run_once() == type(report)(size=5, added=0, has_quorum=True)
    entries = check_folder(tmp_path)
    assert [len(entry) for entry in entries] == [33] * 5
    async with database.tenant(tenant) as conn:
        proofs = [await log_rows.find_version_proof(conn, tenant, version) for version in versions]
    assert [proof is None for proof in proofs] == [False] * 3 + [True] * 2  # of another tenant it sees nothing


async def test_the_files_follow_from_the_rows_alone(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    sequencer = make_sequencer(database, tmp_path / "one")
    for count in (1, 200, 100):
        await append_signed_events(database, tenant, act, count)
        await sequencer.run_once()

    await make_sequencer(database, tmp_path / "two").run_once()

    first, second = check_folder(tmp_path / "one"), check_folder(tmp_path / "two")
    assert first == second
    assert (tmp_path / "one/checkpoint").read_bytes() == (tmp_path / "two/checkpoint").read_bytes()
    assert not (tmp_path / "one/tile/0/000.p").exists(), "partial tiles that became full are removed"


async def test_another_key_or_name_does_not_go_on_with_the_log(database: Database, tmp_path: Path) -> None:
    await make_sequencer(database, tmp_path / "one").run_once()
    other = NoteSigner("log.example/other", Seed(b"\x07" * 32))

    with pytest.raises(Conflict, match=r"is `log\.example/passports\+"):
        await make_sequencer(database, tmp_path / "two", signer=other).run_once()


async def test_a_folder_of_another_history_is_refused(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    await append_signed_events(database, tenant, act, 2)
    await make_sequencer(database, tmp_path).run_once()
    other = (tmp_path / "tile/entries/000.p/2").read_bytes()[:-1] + b"x"
    (tmp_path / "tile/entries/000.p/3").write_bytes(other)
    await append_signed_events(database, tenant, act, 1)

    with pytest.raises(LogForked, match=r"another `tile/entries/000\.p/3` already"):
        await make_sequencer(database, tmp_path).run_once()


async def test_a_restored_database_learns_from_the_files(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    await append_signed_events(database, tenant, act, 2)
    await make_sequencer(database, tmp_path).run_once()
    versions = await append_signed_events(database, tenant, act, 3)
    rows = "SELECT tenant_id, outbox_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at, "
    rows += "event_hash, payload_canonical, salt FROM log_outbox"
    async with database.system() as conn:
        waiting = await conn.fetch(rows)
    await make_sequencer(database, tmp_path).run_once()
    published = (tmp_path / "checkpoint").read_bytes()
    # Roll the database back to the moment before: two entries, three rows that wait, one of which the backup lacks.
    await roll_back(database, 2, waiting[:2])

    report = await make_sequencer(database, tmp_path).run_once()

    entries = check_folder(tmp_path)
    assert (report.size, len(entries)) == (6, 6)
    statement = read_readable_entry(entries[5])
    assert statement is not None
    assert (statement["kind"], statement["restored_size"], statement["size"]) == ("LOG_RESTORED", 2, 5)
    assert_consistent(tmp_path, published)
    async with database.tenant(tenant) as conn:
        proofs = [await log_rows.find_version_proof(conn, tenant, version) for version in versions]
    assert [proof is not None for proof in proofs].count(True) == 2, "the rows that waited found their entries"


async def test_a_restore_is_in_the_log_even_if_nothing_was_lost(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    await append_signed_events(database, tenant, act, 2)
    await make_sequencer(database, tmp_path).run_once()
    async with database.system() as conn:
        await log_rows.mark_restored(conn)

    await make_sequencer(database, tmp_path).run_once()
    report = await make_sequencer(database, tmp_path).run_once()

    assert report.size == 3
    statement = read_readable_entry(check_folder(tmp_path)[2])
    assert statement is not None
    assert (statement["kind"], statement["restored_size"], statement["size"]) == ("LOG_RESTORED", 2, 2)


async def roll_back(database: Database, size: int, waiting: list[Any]) -> None:
    """Do what a restore does: past all triggers."""
    async with database.plain() as conn, conn.transaction():
        await conn.execute("SET LOCAL ROLE bpc_owner")
        for table in ("log_entries", "log_openings", "log_proofs", "log_checkpoints"):
            await conn.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            await conn.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        await conn.execute("DELETE FROM log_proofs WHERE log_index >= $1", size)
        await conn.execute("DELETE FROM log_openings WHERE log_index >= $1", size)
        await conn.execute("DELETE FROM log_entries WHERE log_index >= $1", size)
        await conn.execute("DELETE FROM log_checkpoints WHERE size > $1", size)
        for table in ("log_entries", "log_openings", "log_proofs", "log_checkpoints"):
            await conn.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            await conn.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    async with database.system() as conn:
        for row in waiting:
            await conn.execute("INSERT INTO log_outbox VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", *row)


def assert_consistent(folder: Path, earlier: bytes) -> None:
    """The published log begins with what was published earlier."""
    old = open_checkpoint(earlier, SIGNER.verifier).checkpoint
    new = open_checkpoint((folder / "checkpoint").read_bytes(), SIGNER.verifier).checkpoint
    tree = TileTree(new.size, LogFolder(folder).read_tile)
    proof = make_consistency_proof(old.size, new.size, tree.read)
    check_consistency(old.size, new.size, old.root, new.root, proof)


class FaultyDisk:
    """The disk fails at one write: either before it is done or right after."""

    WRITES = ("open", "link", "replace", "fsync", "unlink", "mkdir")

    def __init__(self, fail_at: int, *, after: bool) -> None:
        self.fail_at = fail_at
        self.after = after
        self.count = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in self.WRITES:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            is_fault = self.count == self.fail_at
            if is_fault and not self.after:
                raise OSError(errno.ENOSPC, "no space left on device")
            result = call(*arguments, **options)
            if is_fault:
                raise OSError(errno.EIO, "input/output error")
            return result

        return write


class DyingDatabase:
    """A database to which the connection is lost at one transaction: either before its commit or right after."""

    def __init__(self, database: Database, fail_at: int, *, after: bool) -> None:
        self._database = database
        self._fail_at = fail_at
        self._after = after
        self.count = 0

    def system(self) -> Any:
        return self._run()

    def _run(self) -> Any:

        @asynccontextmanager
        async def run() -> Any:
            self.count += 1
            is_fault = self.count == self._fail_at
            async with self._database.system() as conn:
                yield conn
                if is_fault and not self._after:
                    raise ConnectionResetError("the connection is lost")
            if is_fault:
                raise ConnectionResetError("the connection is lost")

        return run()


@pytest.mark.parametrize("after", [False, True])
async def test_a_fault_at_any_write_loses_nothing_and_forks_nothing(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path, after: bool
) -> None:
    published = list[bytes]()
    versions = await append_signed_events(database, tenant, act, 254)
    await make_sequencer(database, tmp_path).run_once()
    faults = 0
    for fail_at in range(1, 200):
        versions += await append_signed_events(database, tenant, act, 2)
        disk = FaultyDisk(fail_at, after=after)
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            try:
                await make_sequencer(database, tmp_path).run_once()
            except OSError:
                faults += 1
        published.append((tmp_path / "checkpoint").read_bytes())
        if disk.count < fail_at:
            break
    else:
        pytest.fail("the sequencer writes without end")

    report = await make_sequencer(database, tmp_path).run_once()

    assert faults >= 15
    assert report.size == len(versions)
    await assert_all_logged(database, tenant, tmp_path, len(versions))
    for note in published:
        assert_consistent(tmp_path, note)


@pytest.mark.parametrize("after", [False, True])
async def test_a_lost_connection_at_any_transaction_loses_nothing_and_forks_nothing(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path, after: bool
) -> None:
    published, versions = list[bytes](), await append_signed_events(database, tenant, act, 3)
    await make_sequencer(database, tmp_path).run_once()
    faults = 0
    for fail_at in range(1, 50):
        versions += await append_signed_events(database, tenant, act, 2)
        dying: Any = DyingDatabase(database, fail_at, after=after)
        try:
            await Sequencer(dying, LogFolder(tmp_path), SIGNER, now=clock.now).run_once()
        except ConnectionResetError:
            faults += 1
        published.append((tmp_path / "checkpoint").read_bytes())
        if dying.count < fail_at:
            break

    report = await make_sequencer(database, tmp_path).run_once()

    assert faults >= 4
    assert report.size == len(versions)
    await assert_all_logged(database, tenant, tmp_path, len(versions))
    for note in published:
        assert_consistent(tmp_path, note)


async def assert_all_logged(database: Database, tenant: TenantId, folder: Path, count: int) -> None:
    """Each event has one entry, and the files have exactly the entries of the database."""
    entries = check_folder(folder)
    assert len(set(entries)) == len(entries) == count
    async with database.system(tenant) as conn:
        assert await log_rows.load_entries(conn, 0, count) == entries
        assert await conn.fetchval("SELECT count(DISTINCT aggregate_id) FROM log_openings") == count
        assert await conn.fetchval("SELECT count(*) FROM log_proofs") == count
        assert await log_rows.count_waiting(conn) == 0


async def test_two_processes_with_folders_of_their_own_write_one_log(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    one, two = make_sequencer(database, tmp_path / "one"), make_sequencer(database, tmp_path / "two")
    for count in (3, 1, 300, 2):
        await append_signed_events(database, tenant, act, count)
        await one.run_once()
        await append_signed_events(database, tenant, act, count)
        await two.run_once()
    await one.run_once()

    assert check_folder(tmp_path / "one") == check_folder(tmp_path / "two")


def test_one_process_holds_a_folder(tmp_path: Path) -> None:
    first, second = LogFolder(tmp_path), LogFolder(tmp_path)

    assert [first.take_lock(), second.take_lock()] == [True, False]
    second.release_lock()
    assert second.take_lock() is False
    first.release_lock()
    assert second.take_lock()


def test_only_tiles_that_became_full_lose_their_parts() -> None:
    paths = [tile.path for tile in list_completed_tiles(255, 70_000)]

    assert paths == ["tile/entries/000", "tile/0/000"]
    assert list_completed_tiles(256, 511) == []
