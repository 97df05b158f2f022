"""How the files of the log are served, with an API or without: which bytes, which type, how long they may be kept.

A tile never changes, so anybody may keep it for ever. A checkpoint is replaced every few seconds.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.storage.tlog.log_files import CHECKPOINT_FILE, LogFolder

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
        return LogFile(folder.read_path(path), TILE_HEADERS)
    except (Invalid, FileNotFoundError, NotADirectoryError):
        return None
