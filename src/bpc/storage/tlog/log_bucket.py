"""The log in a bucket, for API and workers that share no folder; and which of the two an installation has.

    settings ── open_log ─┬─► LogBucket, if there is an address of a bucket
                          └─► LogFolder

Tiles are put only where there is nothing of their name. The checkpoint is replaced only by whoever has read the one
that is there (`If-Match`): a process that was paused cannot put an older checkpoint in the place of a newer one. So two
writers are never a danger to the log. A lock object keeps it to one, which saves requests: whoever has it writes it
anew every few seconds, and whoever sees it unchanged for longer, by a clock that nobody sets, takes it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from bpc.core.tlog.tiles import Tile
from bpc.runtime import clock
from bpc.runtime.object_store import LOG_SETTING, Bucket, BucketUnavailable, ObjectVersion
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import locate_log_folder
from bpc.storage.tlog.log_files import CHECKPOINT_FILE, LOCK_FILE, LogFolder, LogForked, LogStore, LogTaken

LOCK_SECONDS: Final = 30.0  # a lock that was not renewed for so long belongs to nobody
RENEWAL_SECONDS: Final = 8.0
TILES_KEPT: Final = 64  # in memory, of at most 8 kB, or of some entries: the next entries change the same few
FREE: Final = b""


class LogLocation(NamedTuple):
    """Where the files of the log are: in a bucket, or in a folder."""

    folder: Path
    bucket_url: str | None = None


def open_log(settings: Settings) -> LogStore:
    """The files of this installation's log; of a bucket, the same ones for the whole process."""
    return open_log_at(LogLocation(locate_log_folder(settings), settings.tlog_store))


def open_named_log(place: str) -> LogStore:
    """The files of a log by the path of its folder, or by the address of its bucket."""
    return open_log_at(LogLocation(Path(place), place if place.startswith("s3://") else None))


@lru_cache(maxsize=8)
def open_log_at(location: LogLocation) -> LogStore:
    """The files of the log at this place."""
    if location.bucket_url is None:
        return LogFolder(location.folder)
    return LogBucket(Bucket(location.bucket_url, setting=LOG_SETTING))


class WatchedLock(NamedTuple):
    """The lock of another process as we saw it first, and when that was."""

    version: ObjectVersion
    since: float


class LogBucket(LogStore):
    """The log in a bucket."""

    def __init__(self, bucket: Bucket, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.name = bucket.url
        self._bucket = bucket
        self._monotonic = monotonic
        self._owner = clock.random_bytes(16).hex()
        self._renewals = 0
        self._lock: ObjectVersion | None = None
        self._renewed_at = 0.0
        self._watched: WatchedLock | None = None
        self._checkpoint: ObjectVersion | None = None  # the one that we read to replace
        self._tiles: OrderedDict[str, bytes] = OrderedDict()

    # The lock --------------------------------------------------------------------------------------------------------

    def take_lock(self) -> bool:
        version = self._find_free_lock()
        if version is None:
            return False
        self._lock = self._write_lock(version or None)
        return self._lock is not None

    def renew_lock(self) -> None:
        if self._monotonic() - self._renewed_at < RENEWAL_SECONDS:
            return
        self._lock = self._write_lock(self._lock)
        if self._lock is None:
            raise LogTaken

    def release_lock(self) -> None:
        if self._lock is not None:
            with suppress(BucketUnavailable):  # then it is free a little later
                self._bucket.replace(LOCK_FILE, FREE, self._lock)
            self._lock = None

    def _find_free_lock(self) -> ObjectVersion | None:
        """The version of a lock that we may take; empty if there is none yet, None if another process has it."""
        try:
            content, version = self._bucket.get_version(LOCK_FILE)
        except FileNotFoundError:
            return {}
        if content == FREE or self._is_ours(content):
            return version
        now = self._monotonic()
        if self._watched is None or self._watched.version != version:
            self._watched = WatchedLock(version, now)
        return version if now - self._watched.since >= LOCK_SECONDS else None

    def _write_lock(self, known: ObjectVersion | None) -> ObjectVersion | None:
        """The version of our lock; None if another process was faster."""
        self._renewals += 1
        content, begun_at = f"{self._owner} {self._renewals}".encode(), self._monotonic()
        version = self._bucket.replace(LOCK_FILE, content, known)
        if version is None:  # perhaps our own request, whose answer was lost and which was sent again
            present, present_version = self._bucket.get_version(LOCK_FILE)
            version = present_version if present == content else None
        self._renewed_at = begun_at
        return version

    def _is_ours(self, content: bytes) -> bool:
        return content.decode("ascii", "replace").startswith(f"{self._owner} ")

    # Files -----------------------------------------------------------------------------------------------------------

    def read_file(self, path: str) -> bytes:
        data = self._tiles.get(path)
        if data is None:
            data = self._bucket.get(path)
            self._keep_tile(path, data)
        return data

    def create_file(self, path: str, data: bytes) -> None:
        if not self._bucket.put_new(path, data) and self._bucket.get(path) != data:
            raise LogForked.at_file(path)
        self._keep_tile(path, data)

    def replace_file(self, path: str, data: bytes) -> None:
        self._bucket.put(path, data)

    def read_checkpoint_to_replace(self) -> bytes | None:
        self._checkpoint = None
        with suppress(FileNotFoundError):
            note, self._checkpoint = self._bucket.get_version(CHECKPOINT_FILE)
            return note
        return None

    def publish_checkpoint(self, note: bytes) -> None:
        version = self._bucket.replace(CHECKPOINT_FILE, note, self._checkpoint)
        if version is None:
            present, version = self._bucket.get_version(CHECKPOINT_FILE)
            if present != note:
                raise LogTaken
        self._checkpoint = version

    def remove_partial_tiles(self, tiles: Sequence[Tile]) -> None:
        with suppress(BucketUnavailable):  # who may not delete leaves them there; they take room and do no harm
            for tile in tiles:
                folder = f"{Tile(level=tile.level, index=tile.index).path}.p"
                if paths := [entry.path for entry in self._bucket.list_objects(folder)]:
                    self._bucket.delete(*paths)

    def _keep_tile(self, path: str, data: bytes) -> None:
        if path.startswith("tile/"):  # which never changes
            self._tiles[path] = data
            if len(self._tiles) > TILES_KEPT:
                with suppress(KeyError):  # another thread was faster
                    self._tiles.popitem(last=False)
