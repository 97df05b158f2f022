"""The log in a bucket: the same files as in a folder, whatever fails, and whoever else writes there.

The bucket is one in memory, by the same library as those of S3; `make engines` asks moto's server the same.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.tlog.checkpoints import open_checkpoint
from bpc.core.tlog.merkle import check_consistency, make_consistency_proof
from bpc.core.tlog.tiles import Tile, TileTree
from bpc.runtime import clock
from bpc.runtime.object_store import Bucket, BucketUnavailable
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_bucket import LOCK_SECONDS, RENEWAL_SECONDS, LogBucket
from bpc.storage.tlog.log_files import CHECKPOINT_FILE, LogForked, LogTaken, StampedCheckpoint, find_log_file
from bpc.storage.tlog.sequencer import Sequencer
from tests.storage.tlog.log_fixtures import (
    SIGNER,
    append_signed_events,
    check_folder,
    copy_bucket,
    make_sequencer,
)

NETWORK: Any = BucketUnavailable(ConnectionResetError("connection reset"))


def open_bucket(kind: type[Bucket] = Bucket) -> Any:
    return kind("memory:///", setting="BPC_TLOG_STORE")


def write_log(database: Database, store: LogBucket) -> Sequencer:
    return Sequencer(database, store, SIGNER, now=clock.now)


class FaultyBucket(Bucket):
    """A bucket to which the connection is lost at one write: either before it is done or right after."""

    fail_at = 0
    after = False
    count = 0

    def _fail(self, write: Callable[[], Any]) -> Any:
        self.count += 1
        is_fault = self.count == self.fail_at
        if is_fault and not self.after:
            raise NETWORK
        result = write()
        if is_fault:
            raise NETWORK
        return result

    def put_new(self, *arguments: Any) -> Any:
        return self._fail(lambda: super(FaultyBucket, self).put_new(*arguments))

    def replace(self, *arguments: Any) -> Any:
        return self._fail(lambda: super(FaultyBucket, self).replace(*arguments))

    def delete(self, *arguments: Any) -> Any:
        return self._fail(lambda: super(FaultyBucket, self).delete(*arguments))


async def test_a_bucket_has_the_files_that_a_folder_would_have(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    bucket = open_bucket()
    for count in (1, 254, 100):
        await append_signed_events(database, tenant, act, count)
        await write_log(database, LogBucket(bucket)).run_once()
    await make_sequencer(database, tmp_path / "folder").run_once()

    copy_bucket(bucket, tmp_path / "bucket")

    assert check_folder(tmp_path / "bucket") == check_folder(tmp_path / "folder")
    assert (tmp_path / "bucket/checkpoint").read_bytes() == (tmp_path / "folder/checkpoint").read_bytes()
    assert not (tmp_path / "bucket/tile/0/000.p").exists(), "partial tiles that became full are removed"
    store = LogBucket(bucket)
    served = find_log_file(store, "tile/0/000")
    assert served is not None
    assert (served.data, "immutable" in served.headers["Cache-Control"]) == (store.read_file("tile/0/000"), True)
    assert store.read_tile(Tile(level=0, index=0, width=3)) == served.data[:96], "the beginning of the full one"
    assert [find_log_file(store, path) for path in ("tile/0/001", ".sequencer.lock", "timestamp/latest")] == [None] * 3
    store.write_time_stamp(StampedCheckpoint(3, b"note", b"answer"))
    assert (store.read_stamped_size(), store.read_file("timestamp/3.tsr")) == (3, b"answer")


@pytest.mark.parametrize("after", [False, True])
async def test_a_fault_at_any_write_to_a_bucket_loses_nothing_and_forks_nothing(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path, after: bool
) -> None:
    bucket, published, faults = open_bucket(FaultyBucket), list[bytes](), 0
    versions = await append_signed_events(database, tenant, act, 254)
    await write_log(database, LogBucket(bucket)).run_once()
    bucket.after = after
    for fail_at in range(1, 100):
        versions += await append_signed_events(database, tenant, act, 2)
        bucket.fail_at, bucket.count = fail_at, 0
        try:
            await write_log(database, LogBucket(bucket)).run_once()
        except BucketUnavailable:
            faults += 1
        published.append(bucket.get(CHECKPOINT_FILE))
        if bucket.count < fail_at:
            break
    else:
        pytest.fail("the sequencer writes without end")
    bucket.fail_at = 0

    report = await write_log(database, LogBucket(bucket)).run_once()

    assert faults >= 3
    assert report.size == len(versions)
    copy_bucket(bucket, tmp_path)
    entries = check_folder(tmp_path)
    assert len(set(entries)) == len(entries) == len(versions)
    async with database.system(tenant) as conn:
        assert await log_rows.load_entries(conn, 0, len(versions)) == entries
        assert await conn.fetchval("SELECT count(*) FROM log_proofs") == len(versions)
    newest = open_checkpoint(bucket.get(CHECKPOINT_FILE), SIGNER.verifier).checkpoint
    tree = TileTree(newest.size, LogBucket(bucket).read_tile)
    for note in published:
        old = open_checkpoint(note, SIGNER.verifier).checkpoint
        proof = make_consistency_proof(old.size, newest.size, tree.read)
        check_consistency(old.size, newest.size, old.root, newest.root, proof)


async def test_a_writer_that_was_paused_does_not_publish_an_older_checkpoint(
    database: Database, tenant: TenantId, act: Act
) -> None:
    bucket = open_bucket()
    await append_signed_events(database, tenant, act, 1)
    await write_log(database, LogBucket(bucket)).run_once()
    paused = LogBucket(bucket)
    old_note = paused.read_checkpoint_to_replace()
    await append_signed_events(database, tenant, act, 1)
    await write_log(database, LogBucket(bucket)).run_once()
    newest = bucket.get(CHECKPOINT_FILE)

    with pytest.raises(LogTaken):
        paused.publish_checkpoint(b"an older one")

    assert old_note is not None
    assert bucket.get(CHECKPOINT_FILE) == newest != old_note
    with pytest.raises(LogTaken):
        LogBucket(bucket).publish_checkpoint(b"of somebody who has seen none")


async def test_a_restored_database_learns_from_the_bucket(database: Database, tenant: TenantId, act: Act) -> None:
    bucket = open_bucket()
    await append_signed_events(database, tenant, act, 2)
    await write_log(database, LogBucket(bucket)).run_once()
    async with database.system() as conn:
        await log_rows.mark_restored(conn)

    report = await write_log(database, LogBucket(bucket)).run_once()

    assert report.size == 3
    assert b"LOG_RESTORED" in LogBucket(bucket).read_file("tile/entries/000.p/3")


def test_a_tile_of_another_history_is_refused() -> None:
    bucket, tile = open_bucket(), Tile(level=0, index=0, width=1)
    LogBucket(bucket).write_tile(tile, bytes(32))
    LogBucket(bucket).write_tile(tile, bytes(32))

    with pytest.raises(LogForked, match=r"another `tile/0/000\.p/1` already"):
        LogBucket(bucket).write_tile(tile, bytes(31) + b"\1")


def test_one_process_holds_a_bucket_and_another_goes_on_when_it_is_gone() -> None:
    bucket, seconds = open_bucket(), [0.0]
    one, two, three = (LogBucket(bucket, monotonic=lambda: seconds[0]) for _ in range(3))

    assert [one.take_lock(), two.take_lock()] == [True, False]
    for _ in range(10):
        seconds[0] += RENEWAL_SECONDS
        one.renew_lock()
        assert two.take_lock() is False
    one.release_lock()
    assert [two.take_lock(), three.take_lock()] == [True, False]
    seconds[0] += LOCK_SECONDS - 1  # two is gone
    assert three.take_lock() is False
    seconds[0] += 1
    assert three.take_lock()
    with pytest.raises(LogTaken):
        two.renew_lock()
    two.release_lock()
    assert one.take_lock() is False, "what is no longer ours is not given back"


def test_whoever_may_not_delete_keeps_the_log_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_bucket()
    store = LogBucket(bucket)
    store.write_tile(Tile(level=0, index=0, width=1), bytes(32))

    def refuse(*_: str) -> None:
        raise NETWORK

    monkeypatch.setattr(bucket, "delete", refuse)
    store.remove_partial_tiles([Tile(level=0, index=0)])

    assert bucket.get("tile/0/000.p/1") == bytes(32)
