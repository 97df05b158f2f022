"""Folders: files that an installation lets its tenants take in, by `file:///…` URLs.

Only what lies below a folder that BPC_OUTBOUND_ALLOW names, only plain files, and no step of the way below it is a
symbolic link: what is opened is what was named, whoever else writes there.
"""

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote_to_bytes

from bpc.core.errors import Refusal
from bpc.core.outbound_urls import BadUrl

SCHEME: Final = "file:"
_URL: Final = re.compile(r"file://(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)")
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_THERE: Final = 404


class FolderBlocked(Refusal):
    """Not below a folder that the installation names."""

    code = "OUTBOUND_BLOCKED"

    def __init__(self) -> None:
        super().__init__(
            "no file is taken from outside the folders that are open to this",
            fix="use a file in such a folder, or have its folder named in BPC_OUTBOUND_ALLOW",
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such file."""

    status: int = NOT_THERE

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    async def chunks(self, size: int) -> AsyncIterator[bytes]:  # noqa: ARG002
        return
        yield b""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file from byte `start` on, as `bpc.jobs.download` wants it."""

    fd: int
    start: int
    size: int
    etag: str

    @property
    def status(self) -> int:
        return 206 if self.start else 200

    @property
    def headers(self) -> Mapping[str, str]:
        named = {"ETag": self.etag, "Content-Length": str(self.size - self.start)}
        if self.start:
            named["Content-Range"] = f"bytes {self.start}-{self.size - 1}/{self.size}"
        return named

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        at = self.start
        while piece := await asyncio.to_thread(os.pread, self.fd, min(size, self.size - at), at):
            yield piece
            at += len(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Opens files. `allow` is BPC_OUTBOUND_ALLOW, of which those that begin with `/` are folders."""

    allow: Sequence[str] = ()

    def checked(self, url: str) -> tuple[str, PurePosixPath]:
        """The folder a URL leads into, and the way from there. Raises `BadUrl` or `FolderBlocked`."""
        found = _URL.fullmatch(url)
        if found is None:
            raise BadUrl("the URL is not `file://` and an absolute path, in plain ASCII, other characters as %XX")
        path = PurePosixPath(os.fsdecode(unquote_to_bytes(found["path"])))
        if "\0" in str(path) or ".." in path.parts:
            raise BadUrl("the path in the URL must not go up, nor contain NUL")
        for folder in self.allow:
            if folder.startswith("/") and path != PurePosixPath(folder) and path.is_relative_to(folder):
                return folder, path.relative_to(folder)
        raise FolderBlocked

    @asynccontextmanager
    async def open_url(self, url: str, *, start: int, validator: str | None) -> AsyncIterator[OpenedFile | Missing]:
        """The file from byte `start` on, if it is still the one with this `validator`, else from its beginning."""
        folder, way = self.checked(url)
        with _opened(folder, way) as fd:
            if fd is None:
                yield Missing()
                return
            found = os.fstat(fd)
            etag = f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"'
            goes_on = start < found.st_size and validator == etag
            yield OpenedFile(fd, start if goes_on else 0, found.st_size, etag)


@contextmanager
def _opened(folder: str, way: PurePosixPath) -> Iterator[int | None]:
    """The file, reached step by step; None if it is not there, or not a plain file."""
    fds: list[int] = []
    try:
        try:
            fds.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for step in way.parts[:-1]:
                fds.append(os.open(step, _FLAGS | os.O_DIRECTORY, dir_fd=fds[-1]))
            # Not waiting: a pipe that nobody writes to would keep us.
            fds.append(os.open(way.name, _FLAGS | os.O_NONBLOCK, dir_fd=fds[-1]))
        except OSError:
            yield None
        else:
            yield fds[-1] if stat.S_ISREG(os.fstat(fds[-1]).st_mode) else None
    finally:
        for fd in fds:
            os.close(fd)
