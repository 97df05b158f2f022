"""The list of a backup's files: whatever is changed, added or taken away is named, down to one bit."""

import fcntl
import os
from datetime import timedelta
from pathlib import Path

import pytest

from bpc.core.errors import NotFound, Refusal
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage import backup
from bpc.storage.backup import BackupDamaged, BackupManifest, remove_old_backups, take_backup
from tests.fixtures import TestServer
from tests.measurements import choose_effort


def create_backup(folder: Path, *, days_ago: int = 0) -> Path:
    at = clock.now() - timedelta(days=days_ago)
    folder_of_backup = folder / f"bpc-{at:%Y%m%dT%H%M%SZ}"
    (folder_of_backup / "base" / "deep").mkdir(parents=True)
    (folder_of_backup / "base" / "one").write_bytes(bytes(range(256)) * 4)
    (folder_of_backup / "base" / "deep" / "empty").write_bytes(b"")
    (folder_of_backup / "base" / "link").symlink_to("one")
    backup.write_manifest(
        folder_of_backup, kind="base", taken_at=at, build="bpc-test", server_version="18.4", database="bpc"
    )
    return folder_of_backup


def list_problems(folder: Path) -> list[str]:
    with pytest.raises(BackupDamaged) as refused:
        backup.check_backup(folder)
    named_problems: list[str] = refused.value.details["problems"]  # type: ignore[assignment]
    return named_problems


def test_a_backup_contains_every_file_that_was_written(tmp_path: Path) -> None:
    backup_folder = create_backup(tmp_path)

    checked_manifest = backup.check_backup(backup_folder)

    assert isinstance(checked_manifest, BackupManifest)
    assert sorted(checked_manifest.files) == ["base/deep/empty", "base/link", "base/one"]
    assert (checked_manifest.kind, checked_manifest.build, checked_manifest.size) == ("base", "bpc-test", 1024)


@pytest.mark.parametrize("name", ["base/one", "manifest.json", "manifest.sha256"])
def test_every_flipped_bit_in_a_backup_is_detected(tmp_path: Path, name: str) -> None:
    backup_folder = create_backup(tmp_path)
    original = (backup_folder / name).read_bytes()

    for at in range(0, len(original) * 8, choose_effort(test=61, shown=7, campaign=1)):
        flipped = bytes([original[at // 8] ^ 1 << at % 8])
        (backup_folder / name).write_bytes(original[: at // 8] + flipped + original[at // 8 + 1 :])
        assert list_problems(backup_folder)

    (backup_folder / name).write_bytes(original)
    backup.check_backup(backup_folder)


def test_a_missing_added_or_redirected_file_is_named(tmp_path: Path) -> None:
    backup_folder = create_backup(tmp_path)
    (backup_folder / "base" / "deep" / "empty").unlink()
    (backup_folder / "base" / "two").write_bytes(b"")
    (backup_folder / "base" / "link").unlink()
    (backup_folder / "base" / "link").symlink_to("two")

    assert list_problems(backup_folder) == [
        "`base/deep/empty` is missing",
        "`base/two` is not in the manifest",
        "`base/link` was changed",
    ]


def test_a_folder_without_a_manifest_is_not_a_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a backup"):
        backup.check_backup(tmp_path)


async def test_the_next_backup_removes_the_files_of_a_killed_one(
    tmp_path: Path, server: TestServer, address: Address
) -> None:
    old = create_backup(tmp_path, days_ago=1)
    abandoned, in_progress = tmp_path / ".bpc-20270218T031700Z.partial", tmp_path / ".bpc-20270218T031701Z.partial"
    for folder in (abandoned, in_progress):
        folder.mkdir()
    (tmp_path / "bpc-20990101T000000Z").mkdir()  # newer, and without a list
    assert backup.find_backup(tmp_path) == old

    descriptor = os.open(in_progress, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        backup_folder, _ = await take_backup(
            tmp_path, server.admin.with_database(address.database), None, keys=None, build="test", at=clock.now()
        )
    finally:
        os.close(descriptor)

    assert backup.find_backup(tmp_path) == backup_folder
    assert sorted(entry.name for entry in tmp_path.glob(".*")) == [in_progress.name]


async def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, server: TestServer) -> None:
    with pytest.raises(Refusal):
        await take_backup(
            tmp_path, server.admin.with_database("no_such"), None, keys=None, build="test", at=clock.now()
        )

    assert list(tmp_path.iterdir()) == []


def test_old_backups_are_removed_and_the_newest_stays_at_any_age(tmp_path: Path) -> None:
    oldest, old = create_backup(tmp_path, days_ago=50), create_backup(tmp_path, days_ago=40)
    (tmp_path / "bpc-19990101T000000Z").mkdir()  # not one of ours, whatever it is called
    (tmp_path / "notes").mkdir()

    assert list(remove_old_backups(tmp_path, keep=timedelta(days=35), now=clock.now())) == [oldest]
    assert old.is_dir()
    recent = create_backup(tmp_path, days_ago=1)
    assert list(remove_old_backups(tmp_path, keep=timedelta(days=35), now=clock.now())) == [old]
    assert recent.is_dir()
    assert (tmp_path / "bpc-19990101T000000Z").is_dir()
