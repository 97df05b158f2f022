"""The list of a backup's files: whatever is changed, added or taken away is named, down to one bit."""

import fcntl
import os
from datetime import timedelta
from pathlib import Path

import pytest

from bpc import fresh
from bpc.core.errors import NotFound, Refusal
from bpc.db.address import Address
from bpc.db.backup import manifest
from bpc.db.backup.manifest import BackupDamaged, Manifest
from bpc.db.backup.taking import forget, take
from tests.conftest import TestServer
from tests.measuring import effort


def backup(folder: Path, *, days_ago: int = 0) -> Path:
    at = fresh.now() - timedelta(days=days_ago)
    made = folder / f"bpc-{at:%Y%m%dT%H%M%SZ}"
    (made / "base" / "deep").mkdir(parents=True)
    (made / "base" / "one").write_bytes(bytes(range(256)) * 4)
    (made / "base" / "deep" / "empty").write_bytes(b"")
    (made / "base" / "link").symlink_to("one")
    manifest.write(made, kind="base", taken_at=at, build="bpc-test", server_version="18.4", database="bpc")
    return made


def problems(folder: Path) -> list[str]:
    with pytest.raises(BackupDamaged) as refused:
        manifest.check(folder)
    found: list[str] = refused.value.details["problems"]  # type: ignore[assignment]
    return found


def test_what_was_written_is_found_again(tmp_path: Path) -> None:
    made = backup(tmp_path)

    found = manifest.check(made)

    assert isinstance(found, Manifest)
    assert sorted(found.files) == ["base/deep/empty", "base/link", "base/one"]
    assert (found.kind, found.build, found.size) == ("base", "bpc-test", 1024)


@pytest.mark.parametrize("name", ["base/one", "manifest.json", "manifest.sha256"])
def test_any_bit_that_was_flipped_is_found(tmp_path: Path, name: str) -> None:
    made = backup(tmp_path)
    whole = (made / name).read_bytes()

    for at in range(0, len(whole) * 8, effort(test=61, shown=7, campaign=1)):
        flipped = bytes([whole[at // 8] ^ 1 << at % 8])
        (made / name).write_bytes(whole[: at // 8] + flipped + whole[at // 8 + 1 :])
        assert problems(made)

    (made / name).write_bytes(whole)
    manifest.check(made)


def test_what_is_missing_added_or_points_elsewhere_is_named(tmp_path: Path) -> None:
    made = backup(tmp_path)
    (made / "base" / "deep" / "empty").unlink()
    (made / "base" / "two").write_bytes(b"")
    (made / "base" / "link").unlink()
    (made / "base" / "link").symlink_to("two")

    assert problems(made) == [
        "`base/deep/empty` is missing",
        "`base/two` does not belong to it",
        "`base/link` was changed",
    ]


def test_another_folder_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a backup"):
        manifest.check(tmp_path)


async def test_what_a_killed_backup_left_is_no_backup_and_goes_with_the_next(
    tmp_path: Path, server: TestServer, address: Address
) -> None:
    old = backup(tmp_path, days_ago=1)
    left, taken = tmp_path / ".bpc-20270218T031700Z.partial", tmp_path / ".bpc-20270218T031701Z.partial"
    for folder in (left, taken):
        folder.mkdir()
    (tmp_path / "bpc-20990101T000000Z").mkdir()  # newer, and without a list
    assert manifest.chosen(tmp_path) == old

    held = os.open(taken, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        made, _ = await take(tmp_path, server.admin.at(address.database), None, keys=None, build="test", at=fresh.now())
    finally:
        os.close(held)

    assert manifest.chosen(tmp_path) == made
    assert sorted(entry.name for entry in tmp_path.glob(".*")) == [taken.name]


async def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, server: TestServer) -> None:
    with pytest.raises(Refusal):
        await take(tmp_path, server.admin.at("no_such"), None, keys=None, build="test", at=fresh.now())

    assert list(tmp_path.iterdir()) == []


def test_old_backups_go_and_the_newest_stays_however_old_it_is(tmp_path: Path) -> None:
    oldest, old = backup(tmp_path, days_ago=50), backup(tmp_path, days_ago=40)
    (tmp_path / "bpc-19990101T000000Z").mkdir()  # not one of ours, whatever it is called
    (tmp_path / "notes").mkdir()

    assert list(forget(tmp_path, keep=timedelta(days=35), now=fresh.now())) == [oldest]
    assert old.is_dir()
    recent = backup(tmp_path, days_ago=1)
    assert list(forget(tmp_path, keep=timedelta(days=35), now=fresh.now())) == [old]
    assert recent.is_dir()
    assert (tmp_path / "bpc-19990101T000000Z").is_dir()
