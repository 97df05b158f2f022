"""Folders: files that an installation lets its tenants read, by `file:///…` URLs.

Only plain files below an allowed folder are opened, and no part of the path below it may be a symbolic link. So the
file that is opened is the one the URL names, even if others write to the folder.
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
_FILE_URL: Final = re.compile(r"file://(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)")
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_FOUND: Final = 404


class FolderBlocked(Refusal):
    """The file is not in an allowed folder."""

    code = "OUTBOUND_BLOCKED"

    def __init__(self) -> None:
        super().__init__(
            "files are read only from allowed folders",
            fix="use a file in an allowed folder, or ask the operator to allow its folder",
        )


@dataclass(frozen=True, slots=True)
class MissingFile:
    """The answer for a file that does not exist."""

    status: int = NOT_FOUND

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    async def chunks(self, size: int) -> AsyncIterator[bytes]:  # noqa: ARG002
        return
        yield b""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file from byte `start` on, in the form that `service_jobs.download` reads."""

    fd: int
    start: int
    size: int
    etag: str

    @property
    def status(self) -> int:
        return 206 if self.start else 200

    @property
    def headers(self) -> Mapping[str, str]:
        headers = {"ETag": self.etag, "Content-Length": str(self.size - self.start)}
        if self.start:
            headers["Content-Range"] = f"bytes {self.start}-{self.size - 1}/{self.size}"
        return headers

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        at = self.start
        while piece := await asyncio.to_thread(os.pread, self.fd, min(size, self.size - at), at):
            yield piece
            at += len(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedFolders:
    """Opens files. The entries of `allow` that begin with `/` are folders; the others are for `Guard`."""

    allow: Sequence[str] = ()

    def locate_file(self, url: str) -> tuple[str, PurePosixPath]:
        """The allowed folder of a URL, and the path below it. Raises `BadUrl` or `FolderBlocked`."""
        url_parts = _FILE_URL.fullmatch(url)
        if url_parts is None:
            raise BadUrl("the URL must be `file://` and an absolute path; write characters that are not ASCII as %XX")
        path = PurePosixPath(os.fsdecode(unquote_to_bytes(url_parts["path"])))
        if "\0" in str(path) or ".." in path.parts:
            raise BadUrl("the path in the URL must not contain `..` or NUL")
        for folder in self.allow:
            if folder.startswith("/") and path != PurePosixPath(folder) and path.is_relative_to(folder):
                return folder, path.relative_to(folder)
        raise FolderBlocked

    @asynccontextmanager
    async def open_url(self, url: str, *, start: int, validator: str | None) -> AsyncIterator[OpenedFile | MissingFile]:
        """Open the file at byte `start` if its `validator` is still the same, else at its beginning."""
        folder, relative_path = self.locate_file(url)
        with _open_file(folder, relative_path) as fd:
            if fd is None:
                yield MissingFile()
                return
            file_stat = os.fstat(fd)
            etag = f'"{file_stat.st_ino:x}-{file_stat.st_size:x}-{file_stat.st_mtime_ns:x}"'
            is_unchanged = start < file_stat.st_size and validator == etag
            yield OpenedFile(fd, start if is_unchanged else 0, file_stat.st_size, etag)


@contextmanager
def _open_file(folder: str, relative_path: PurePosixPath) -> Iterator[int | None]:
    """Open the file folder by folder; None if it does not exist or is not a plain file."""
    fds: list[int] = []
    try:
        try:
            fds.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for step in relative_path.parts[:-1]:
                fds.append(os.open(step, _OPEN_FLAGS | os.O_DIRECTORY, dir_fd=fds[-1]))
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
            fds.append(os.open(relative_path.name, _OPEN_FLAGS | os.O_NONBLOCK, dir_fd=fds[-1]))
        except OSError:
            yield None
        else:
            yield fds[-1] if stat.S_ISREG(os.fstat(fds[-1]).st_mode) else None
    finally:
        for fd in fds:
            os.close(fd)
