"""The files of the log: tiles and the checkpoint, in one folder that any web server can serve, or in a bucket.

    checkpoint                 replaced by each newer one, as a whole
    tile/…                     created once, never changed (bpc.core.tlog.tiles)
    timestamp/<size>.note      a checkpoint that an authority stamped with the time, never changed
    timestamp/<size>.tsr       what the authority answered (RFC 3161), never changed
    timestamp/latest           the size of the last one
    .sequencer.lock            held by the one process that writes here

`LogStore` says what the files are, `LogFolder` keeps them in a folder; for buckets see bpc.storage.tlog.log_bucket.
A tile appears under its name only when it is whole and on disk. Writing one that is there is allowed if it is the same;
otherwise somebody else writes another log here, and `LogForked` says so.
"""

import fcntl
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.hashes import DIGEST_BYTES
from bpc.core.tlog.checkpoints import parse_size
from bpc.core.tlog.tiles import TILE_WIDTH, BadTile, Tile, parse_tile_path, read_entry_bundle, write_entry_bundle
from bpc.runtime import clock

CHECKPOINT_FILE: Final = "checkpoint"
LOCK_FILE: Final = ".sequencer.lock"
STAMPS_FOLDER: Final = "timestamp"
STAMP_PATH: Final = re.compile(r"timestamp/(latest|(0|[1-9][0-9]{0,18})\.(note|tsr))")
TEMPORARY_PREFIX: Final = ".new-"


class LogForked(Conflict):
    """What is stored and what should be stored are two different histories."""

    def __init__(self, says: str) -> None:
        super().__init__(
            says, fix="stop, keep both, and find out which is the published one: an audit of the log compares"
        )

    @classmethod
    def at_file(cls, path: str) -> Self:
        """What was to be created is there with other bytes."""
        return cls(f"the log has another `{path}` already")


class LogTaken(Conflict):
    """Another process has begun to write this log."""

    def __init__(self) -> None:
        super().__init__("another process writes the log now", fix="nothing: one of them goes on with it")


class StampedCheckpoint(NamedTuple):
    """A checkpoint as it was published, and what an authority answered to it."""

    size: int
    note: bytes
    answer: bytes


class LogStore(ABC):
    """The files of one log. A subclass reads and writes bytes; this class says which."""

    name: str  # for people: the folder, or the address of the bucket

    @abstractmethod
    def take_lock(self) -> bool:
        """Whether we may write here until `release_lock`; False if another process does."""

    @abstractmethod
    def release_lock(self) -> None:
        """Let another process write here. Nothing if we do not have the lock."""

    @abstractmethod
    def renew_lock(self) -> None:
        """Say that we still write here; whoever has the lock says so before each run. Raises `LogTaken`."""

    @abstractmethod
    def read_file(self, path: str) -> bytes:
        """A file by its path. Raises `FileNotFoundError`."""

    @abstractmethod
    def create_file(self, path: str, data: bytes) -> None:
        """Create a file. Raises `LogForked` if there is one of this path with other bytes."""

    @abstractmethod
    def replace_file(self, path: str, data: bytes) -> None:
        """Write a file as a whole, in the place of the one that is there."""

    @abstractmethod
    def publish_checkpoint(self, note: bytes) -> None:
        """Replace the checkpoint, as a whole. Raises `LogTaken` if it is not the one that we read to replace."""

    @abstractmethod
    def remove_partial_tiles(self, tiles: Sequence[Tile]) -> None:
        """Remove what is left of tiles that have become full. Whoever still asks for them takes the full ones."""

    def read_checkpoint(self) -> bytes | None:
        """The checkpoint that is published; None before the first one."""
        try:
            return self.read_file(CHECKPOINT_FILE)
        except FileNotFoundError:
            return None

    def read_checkpoint_to_replace(self) -> bytes | None:
        """The same, for whoever is going to publish the next one."""
        return self.read_checkpoint()

    def read_path(self, path: str) -> bytes:
        """A tile by its path, as it is served; `FileNotFoundError` if there is none."""
        return self.read_file(parse_tile_path(path).path)

    def read_tile(self, tile: Tile) -> bytes:
        """A tile; of a partial one that was removed, the beginning of the full one. `BadTile` if there is neither."""
        try:
            return self.read_file(tile.path)
        except FileNotFoundError:
            pass
        full = Tile(level=tile.level, index=tile.index)
        try:
            data = self.read_file(full.path)
        except FileNotFoundError:
            raise BadTile(f"`{tile.path}` is missing") from None
        if tile.level is not None:
            return data[: tile.width * DIGEST_BYTES]
        return write_entry_bundle(read_entry_bundle(data, full)[: tile.width])

    def write_tile(self, tile: Tile, data: bytes) -> None:
        """Create a tile. One that is there must be the same."""
        self.create_file(tile.path, data)

    def read_stamped_size(self) -> int | None:
        """The size of the checkpoint that got the last time stamp; None before the first one."""
        try:
            return parse_size(self.read_file(f"{STAMPS_FOLDER}/latest").decode("ascii", "replace").strip())
        except FileNotFoundError:
            return None

    def write_time_stamp(self, stamp: StampedCheckpoint) -> None:
        """Keep the time stamp of a checkpoint, beside the checkpoint that it is of."""
        self.create_file(f"{STAMPS_FOLDER}/{stamp.size}.note", stamp.note)
        self.create_file(f"{STAMPS_FOLDER}/{stamp.size}.tsr", stamp.answer)
        self.replace_file(f"{STAMPS_FOLDER}/latest", f"{stamp.size}\n".encode())


class LogFolder(LogStore):
    """The log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)
        self._lock: int | None = None

    def take_lock(self) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(descriptor):
            os.close(descriptor)
            return False
        self._lock = descriptor
        self._remove_leftovers()
        return True

    def release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # this also gives the lock back
            self._lock = None

    def renew_lock(self) -> None:
        """The lock of a file stays until its process ends."""

    def read_file(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def create_file(self, path: str, data: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._write_temporary(target.parent, data)
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            if target.read_bytes() != data:
                raise LogForked.at_file(path) from None
        finally:
            temporary.unlink()
        _sync_folder(target.parent)

    def replace_file(self, path: str, data: bytes) -> None:
        target = self.folder / path
        self._write_temporary(target.parent, data).replace(target)
        _sync_folder(target.parent)

    def publish_checkpoint(self, note: bytes) -> None:
        self.replace_file(CHECKPOINT_FILE, note)

    def remove_partial_tiles(self, tiles: Sequence[Tile]) -> None:
        for tile in tiles:
            partial_folder = self.folder / f"{Tile(level=tile.level, index=tile.index).path}.p"
            for width in range(1, TILE_WIDTH):
                with suppress(FileNotFoundError):
                    (partial_folder / str(width)).unlink()
            with suppress(OSError):
                partial_folder.rmdir()

    def _write_temporary(self, folder: Path, data: bytes) -> Path:
        """A file with these bytes, on disk, under a name that nobody reads."""
        path = folder / f"{TEMPORARY_PREFIX}{clock.random_bytes(8).hex()}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path

    def _remove_leftovers(self) -> None:
        for path in self.folder.glob(f"{TEMPORARY_PREFIX}*"):  # of a process that died while it wrote a checkpoint
            path.unlink(missing_ok=True)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    # Without this a power cut may forget the name of a file that a checkpoint relies on.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# How the files are served, with an API or without. A tile never changes, so anybody may keep it for ever; a checkpoint
# is replaced every few seconds.

TILE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "application/octet-stream",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Access-Control-Allow-Origin": "*",
}
CHECKPOINT_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "text/plain; charset=utf-8",
    "Cache-Control": "public, max-age=2",
    "Access-Control-Allow-Origin": "*",
}


class LogFile(NamedTuple):
    """The bytes of a file and the headers it is served with."""

    data: bytes
    headers: Mapping[str, str]


def find_log_file(store: LogStore, path: str) -> LogFile | None:
    """The file at this path below the log; None if there is none."""
    if path == CHECKPOINT_FILE:
        note = store.read_checkpoint()
        return None if note is None else LogFile(note, CHECKPOINT_HEADERS)
    try:
        if STAMP_PATH.fullmatch(path):
            data = store.read_file(path)
            return LogFile(data, CHECKPOINT_HEADERS if path.endswith("latest") else TILE_HEADERS)
        return LogFile(store.read_path(path), TILE_HEADERS)
    except (Invalid, FileNotFoundError, NotADirectoryError):
        return None
