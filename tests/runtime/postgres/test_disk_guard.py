"""Specification of the look at the disk: writes end before it is full, and the reserve is given up in parts."""

from pathlib import Path

import pytest

from bpc.runtime.postgres import disk_guard
from bpc.runtime.postgres.disk_guard import (
    CLOSE_BELOW_BYTES,
    MEGABYTE,
    OPEN_ABOVE_BYTES,
    PART_BYTES,
    RESERVE_BYTES,
    DiskGuard,
)


class Disk:
    """A disk whose free bytes tests set, and a guard on it that looks whenever it is asked to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10 * RESERVE_BYTES
        self.told: list[bool] = []
        self.said: list[str] = []
        self.reserve = folder / "postgres.reserve"
        monkeypatch.setattr(disk_guard, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(disk_guard, "RESERVE_AFTER_SECONDS", -1.0)
        monkeypatch.setattr(DiskGuard, "_count_free", lambda _: self.free)
        self.guard = DiskGuard(folder / "postgres", self.told.append, self.said.append)

    def look(self, free: int) -> None:
        self.free = free
        self.guard.look()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_writes_end_before_the_disk_is_full_and_begin_when_there_is_clearly_room(disk: Disk) -> None:
    disk.guard.prepare_start()
    disk.look(10 * RESERVE_BYTES)  # makes the reserve
    disk.look(CLOSE_BELOW_BYTES)
    assert disk.told == [False]

    disk.look(CLOSE_BELOW_BYTES - 1)
    disk.look(OPEN_ABOVE_BYTES - 1)
    disk.look(0)
    assert disk.told == [False, True]
    disk.look(OPEN_ABOVE_BYTES)

    assert disk.told == [False, True, False]
    assert ["takes no writes until 80 MB" in says for says in disk.said] == [True, False]


def test_the_reserve_really_takes_its_bytes_and_is_given_up_in_parts_at_each_start_without_room(disk: Disk) -> None:
    disk.guard.prepare_start()
    disk.look(10 * RESERVE_BYTES)
    taken = disk.reserve.stat()
    assert (taken.st_size, taken.st_blocks * 512 >= RESERVE_BYTES) == (RESERVE_BYTES, True)

    disk.free = PART_BYTES - 1
    for left in (2, 1, 0, 0):
        disk.guard.prepare_start()
        assert disk.reserve.stat().st_size == left * PART_BYTES
    assert disk.told == [False, True, True, True, True]

    disk.look(OPEN_ABOVE_BYTES + RESERVE_BYTES - 1)
    assert disk.told[-1] is True, "there must be room for the reserve as well"
    disk.look(OPEN_ABOVE_BYTES + RESERVE_BYTES)
    assert (disk.told[-1], disk.reserve.stat().st_size) == (False, RESERVE_BYTES)


def test_a_server_that_starts_on_a_nearly_full_disk_takes_no_writes_from_the_beginning(disk: Disk) -> None:
    disk.free = MEGABYTE

    disk.guard.prepare_start()

    assert (disk.told, disk.reserve.exists()) == ([True], False)


def test_a_disk_that_cannot_be_asked_decides_nothing(tmp_path: Path) -> None:
    told: list[bool] = []
    guard = DiskGuard(tmp_path / "missing" / "postgres", told.append, lambda _: None)

    guard.prepare_start()
    guard.look()

    assert told == [False]
