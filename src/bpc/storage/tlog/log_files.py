"""The files of the log: tiles and the checkpoint, in one folder that any web server can serve.

    <folder>/checkpoint                 replaced by each newer one, as a whole
    <folder>/tile/…                     created once, never changed (bpc.core.tlog.tiles)
    <folder>/timestamp/<size>.note      a checkpoint that an authority stamped with the time, never changed
    <folder>/timestamp/<size>.tsr       what the authority answered (RFC 3161), never changed
    <folder>/timestamp/latest           the size of the last one
    <folder>/.sequencer.lock            held by the one process that writes here

A tile appears under its name only when it is whole and on disk. Writing one that is there is allowed if it is the same;
otherwise somebody else writes another log here, and `LogForked` says so.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

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


class StampedCheckpoint(NamedTuple):
    """A checkpoint as it was published, and what an authority answered to it."""

    size: int
    note: bytes
    answer: bytes


class LogFolder:
    """The folder of one log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Whether we may write here until the block ends; False if another process does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_ours = _try_lock(descriptor)
            if is_ours:
                self._remove_leftovers()
            yield is_ours
        finally:
            os.close(descriptor)  # this also gives the lock back

    def read_checkpoint(self) -> bytes | None:
        """The checkpoint that is published; None before the first one."""
        try:
            return (self.folder / CHECKPOINT_FILE).read_bytes()
        except FileNotFoundError:
            return None

    def read_path(self, path: str) -> bytes:
        """A tile by its path, as it is served; `FileNotFoundError` if there is none."""
        return (self.folder / parse_tile_path(path).path).read_bytes()

    def read_tile(self, tile: Tile) -> bytes:
        """A tile; of a partial one that was removed, the beginning of the full one. `BadTile` if there is neither."""
        try:
            return (self.folder / tile.path).read_bytes()
        except FileNotFoundError:
            pass
        full = Tile(level=tile.level, index=tile.index)
        try:
            data = (self.folder / full.path).read_bytes()
        except FileNotFoundError:
            raise BadTile(f"`{tile.path}` is missing") from None
        if tile.level is not None:
            return data[: tile.width * DIGEST_BYTES]
        return write_entry_bundle(read_entry_bundle(data, full)[: tile.width])

    def write_tile(self, tile: Tile, data: bytes) -> None:
        """Create a tile. One that is there must be the same."""
        self._create(tile.path, data)

    def publish_checkpoint(self, note: bytes) -> None:
        """Replace the checkpoint, as a whole."""
        self._replace(CHECKPOINT_FILE, note)

    def read_stamped_size(self) -> int | None:
        """The size of the checkpoint that got the last time stamp; None before the first one."""
        try:
            return parse_size((self.folder / STAMPS_FOLDER / "latest").read_text().strip())
        except FileNotFoundError:
            return None

    def write_time_stamp(self, stamp: StampedCheckpoint) -> None:
        """Keep the time stamp of a checkpoint, beside the checkpoint that it is of."""
        self._create(f"{STAMPS_FOLDER}/{stamp.size}.note", stamp.note)
        self._create(f"{STAMPS_FOLDER}/{stamp.size}.tsr", stamp.answer)
        self._replace(f"{STAMPS_FOLDER}/latest", f"{stamp.size}\n".encode())

    def _create(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._write_temporary(path.parent, data)
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            if path.read_bytes() != data:
                raise LogForked(f"the log has another `{name}` already") from None
        finally:
            temporary.unlink()
        _sync_folder(path.parent)

    def _replace(self, name: str, data: bytes) -> None:
        path = self.folder / name
        self._write_temporary(path.parent, data).replace(path)
        _sync_folder(path.parent)

    def remove_partial_tiles(self, tiles: Sequence[Tile]) -> None:
        """Remove what is left of tiles that have become full. Whoever still asks for them takes the full ones."""
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


def find_log_file(folder: LogFolder, path: str) -> LogFile | None:
    """The file at this path below the log; None if there is none."""
    if path == CHECKPOINT_FILE:
        note = folder.read_checkpoint()
        return None if note is None else LogFile(note, CHECKPOINT_HEADERS)
    try:
        if STAMP_PATH.fullmatch(path):
            data = (folder.folder / path).read_bytes()
            return LogFile(data, CHECKPOINT_HEADERS if path.endswith("latest") else TILE_HEADERS)
        return LogFile(folder.read_path(path), TILE_HEADERS)
    except (Invalid, FileNotFoundError, NotADirectoryError):
        return None
