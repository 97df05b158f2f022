"""The part file of a download, its checkpoint, and what the head of a response says about the bytes that follow.

checkpoint {"bytes", "validator"}            this many bytes of <dest>.part are durable
checkpoint {"bytes", "validator", "sha256"}  the file is complete; only its name is missing
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

from service_jobs.job import JobsRefusal

OK: Final = 200
PARTIAL: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416
CONTENT_RANGE: Final = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/(?:([0-9]{1,18})|\*)", re.ASCII)
NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
BLOCK_SIZE: Final = 4 * 2**20


class PartReplaced(JobsRefusal):
    """Another process replaced our part file; the next attempt starts over."""

    code = "INTERNAL_ERROR"
    retryable = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadCheckpoint:
    """This many bytes of the part file are durable. With a `sha256`, the file is complete."""

    bytes: int = 0
    validator: str | None = None
    sha256: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> "DownloadCheckpoint":
        """From what an earlier execution saved; anything else counts as an empty checkpoint."""
        match data:
            case {"bytes": int(count), "validator": str() | None as validator, "sha256": str(digest)} if count >= 0:
                return cls(bytes=count, validator=validator, sha256=digest)
            case {"bytes": int(count), "validator": str(validator)} if count > 0:
                return cls(bytes=count, validator=validator)
        return cls()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"bytes": self.bytes, "validator": self.validator}
        return data if self.sha256 is None else data | {"sha256": self.sha256}


class HashedFile:
    """A file that is hashed from its beginning. Its methods block and are called one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # bytes that are hashed
        self._hash = hashlib.sha256()
        self._fd = -1

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def open_if_exists(self, flags: int = os.O_RDONLY) -> int:
        """Open the file and return its size; -1 if there is no such file."""
        try:
            self._fd = os.open(self.path, flags | os.O_CLOEXEC)
        except FileNotFoundError:
            return -1
        return os.fstat(self._fd).st_size

    def hash_next_block(self) -> bool:
        """Hash the next block; False at the end."""
        block = os.pread(self._fd, BLOCK_SIZE, self.size)
        self._hash.update(block)
        self.size += len(block)
        return bool(block)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class PartialFile(HashedFile):
    """The file that grows.

    INVARIANT: a part that is not the beginning of the same file gets a new inode. So an execution that lost its lease
    without knowing it can only write the same bytes as its successor, or into a file that has no name any more.
    """

    def __init__(self, dest: Path) -> None:
        super().__init__(dest.with_name(f"{dest.name}.part"))
        self.dest = dest

    def resume(self, max_size: int) -> None:
        """Open the part, cut to `max_size` bytes; call `hash_next_block` next, until it returns False."""
        size = self.open_if_exists(os.O_RDWR | os.O_NOFOLLOW)
        if size < 0:
            self.start_over()
        elif size > max_size:
            os.ftruncate(self._fd, max_size)

    def start_over(self) -> None:
        self.close()
        self.remove()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0
        self._hash = hashlib.sha256()

    def append(self, pieces: list[bytes]) -> None:
        data = b"".join(pieces)
        self._hash.update(data)
        remaining = memoryview(data)
        while remaining:
            count = os.pwrite(self._fd, remaining, self.size)
            self.size += count
            remaining = remaining[count:]

    def sync(self) -> None:
        os.fsync(self._fd)

    def rename_to_dest(self) -> None:
        """Give the complete file its name, durably."""
        if not os.path.samestat(os.fstat(self._fd), self.path.stat()):
            raise PartReplaced(f"`{self.path}` was replaced while it was written", fix="use a `dest` for one job only")
        self.path.replace(self.dest)
        folder = os.open(self.dest.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """The head of a response."""

    status: int
    first: int  # the position of the first byte that follows; -1 if unknown
    end: int | None  # the position after the last byte
    total: int | None
    etag: str | None
    modified: str | None
    validator: str | None  # identifies the file, byte for byte
    encoding: str

    @classmethod
    def from_headers(cls, status: int, all_headers: Mapping[str, str]) -> "ResponseHead":
        headers = {name.lower(): text.strip() for name, text in all_headers.items()}
        etag, last_modified = headers.get("etag"), headers.get("last-modified")
        first, end, total = _parse_extent(status, headers)
        return cls(
            status=status,
            first=first,
            end=end,
            total=total,
            etag=etag,
            modified=last_modified,
            validator=_choose_validator(etag, last_modified, headers.get("date")),
            encoding=headers.get("content-encoding", "").lower(),
        )

    def contradicts_part(self, start: int, validator: str | None) -> bool:
        """Whether it says that our part is not the beginning of the remote file."""
        if self.status in {OK, RANGE_NOT_SATISFIABLE}:
            return True
        return self.status == PARTIAL and (self.first != start or self.differs_from(validator))

    def differs_from(self, validator: str | None) -> bool:
        if validator is None:
            return False
        current = self.etag if validator.startswith('"') else self.modified
        return current is not None and current != validator


def _parse_extent(status: int, headers: Mapping[str, str]) -> tuple[int, int | None, int | None]:
    """The first position, the end, and the total size."""
    if status not in {PARTIAL, RANGE_NOT_SATISFIABLE}:
        length = headers.get("content-length", "")
        size = int(length) if NUMBER.fullmatch(length) else None
        return 0, size, size
    content_range = CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    if content_range is None:
        return -1, None, None
    first, last, total = (None if text is None else int(text) for text in content_range.groups())
    if first is None or last is None:
        return -1, None, total
    if last < first or (total is not None and last >= total):
        return -1, None, None
    return first, last + 1, total


def _choose_validator(etag: str | None, last_modified: str | None, date: str | None) -> str | None:
    # RFC 9110 13.1.5: If-Range takes a strong entity tag, or a date if there is none and it is strong in the sense
    # of 8.8.2.2: older than the answer by a second or more.
    if etag is not None:
        return etag if etag.startswith('"') else None
    if last_modified is None or date is None:
        return None
    try:
        age = parsedate_to_datetime(date) - parsedate_to_datetime(last_modified)
    except (ValueError, TypeError):
        return None
    return last_modified if age >= timedelta(seconds=1) else None
