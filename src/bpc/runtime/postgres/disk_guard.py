"""The disk of the embedded server: before it is full, writes end, so that reads go on.

A PostgreSQL that cannot extend its write-ahead log stops, and cannot start again before there is room: a full disk
takes the public pages away, too. So the keeper looks at the free bytes. When few are left, new transactions are
read-only, and writes are refused until there is room again. If the disk fills up more quickly than that, or others fill
it to the last byte, the server may stop. Then a part of the reserve, a file beside the cluster, is given up, and the
server starts with that. There are three parts.
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

MEGABYTE: Final = 1 << 20
CLOSE_BELOW_BYTES: Final = 48 * MEGABYTE  # three segments of the write-ahead log
OPEN_ABOVE_BYTES: Final = 80 * MEGABYTE
PART_BYTES: Final = 24 * MEGABYTE  # what a server needs to start
RESERVE_BYTES: Final = 3 * PART_BYTES
LOOK_SECONDS: Final = 0.5
RESERVE_AFTER_SECONDS: Final = 5.0  # a server that only answers one command needs none


class DiskGuard:
    """The keeper's look at the disk. `set_read_only` tells the server, and is repeated for each server that starts."""

    def __init__(self, cluster: Path, set_read_only: Callable[[bool], None], say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._reserve = cluster.with_name(f"{cluster.name}.reserve")
        self._set_read_only = set_read_only
        self._say = say
        self._is_closed = False
        self._next_look = 0.0
        self._started_at = time.monotonic()

    def prepare_start(self) -> None:
        """Before the server starts: decide whether it may write, and give up the reserve if there is no room."""
        self._started_at = time.monotonic()
        free, reserved = self._count_free(), self._count_reserved()
        if free < PART_BYTES and reserved:
            self._say(f"{free // MEGABYTE} MB free: a part of the reserve is given up, so that the server can start")
            with suppress(OSError):
                os.truncate(self._reserve, max(0, reserved - PART_BYTES))
        self._decide(free)
        self._set_read_only(self._is_closed)

    def look(self) -> None:
        """Look at the disk, twice a second, while the server runs."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        free, was_closed = self._count_free(), self._is_closed
        self._decide(free)
        if self._is_closed != was_closed:
            self._set_read_only(self._is_closed)
        if not self._is_closed and now - self._started_at > RESERVE_AFTER_SECONDS:
            self._keep_reserve(free)

    def _decide(self, free: int) -> None:
        # What the reserve lacks is still to be set aside.
        enough = OPEN_ABOVE_BYTES + RESERVE_BYTES - self._count_reserved()
        if not self._is_closed and free < CLOSE_BELOW_BYTES:
            self._is_closed = True
            self._say(f"{free // MEGABYTE} MB free: the server takes no writes until {enough // MEGABYTE} MB are free")
        elif self._is_closed and free >= enough:
            self._is_closed = False
            self._say(f"{free // MEGABYTE} MB free: the server takes writes again")

    def _keep_reserve(self, free: int) -> None:
        missing = RESERVE_BYTES - self._count_reserved()
        if not missing or free < OPEN_ABOVE_BYTES + missing:
            return
        try:
            take_bytes(self._reserve, RESERVE_BYTES)
        except OSError as error:
            self._say(f"the reserve cannot be written: {error.strerror}")

    def _count_reserved(self) -> int:
        try:
            return self._reserve.stat().st_size
        except OSError:
            return 0

    def _count_free(self) -> int:
        try:
            return shutil.disk_usage(self._cluster).free
        except OSError:  # not there yet, or not to be asked: then nothing is decided by it
            return OPEN_ABOVE_BYTES + RESERVE_BYTES


def take_bytes(path: Path, size: int) -> None:
    """Make a file that really takes `size` bytes of the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            for _ in range(size // MEGABYTE):
                os.write(descriptor, bytes(MEGABYTE))
    finally:
        os.close(descriptor)
