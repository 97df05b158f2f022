"""A job that downloads a file, and after an interruption goes on where it was.

    download = download_handler(handlers, open_url)
    await jobs.submit(download, DownloadFile(url="https://…", dest="/data/manual.pdf"), tenant=tenant)

The engine has no HTTP client: `open_url` is given by the service, which thereby decides what may be reached.

What arrives is written to `<dest>.part`, made durable, and then noted in the job's checkpoint; the next execution asks
for the rest, on condition that the file is still the same. A file that changed, a server that cannot tell, or one that
sends something else than was asked for: the download starts over. `dest` appears complete and checked, or not at all.

    checkpoint {"bytes", "validator"}            so much of <dest>.part is there to stay
    checkpoint {"bytes", "validator", "sha256"}  all of it; what is left is to give it its name
"""

import asyncio
import hashlib
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from bpc.jobs.context import Context
from bpc.jobs.errors import InvalidInput, JobsRefusal
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.outcome import Retry

P = ParamSpec("P")
T = TypeVar("T")

OK: Final = 200
PARTIAL: Final = 206
NOT_THERE: Final = frozenset({404, 410})
NO_SUCH_RANGE: Final = 416
WORTH_A_RETRY: Final = frozenset({408, 425, 429})
CONTENT_RANGE: Final = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/(?:([0-9]{1,18})|\*)", re.ASCII)
NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
MOST_NEW_STARTS: Final = 2
AT_ONCE: Final = 4 * 2**20


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFile:
    """What to download. `dest` is replaced if it exists; its folder must exist, and `<dest>.part` is ours."""

    url: Annotated[str, Field(min_length=1, max_length=8_192)]
    dest: Annotated[str, Field(pattern=r"^/[^\x00]*[^/\x00]$", description="an absolute path")]
    chunk_size: Annotated[int, Field(ge=1024, le=64 * 2**20, description="bytes written at a time")] = 2**20
    max_bytes: Annotated[int, Field(ge=0)] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")] | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class DownloadedFile:
    """What is there now. `seconds` is the time of the execution that finished it."""

    path: str
    bytes: int
    sha256: str
    seconds: float


class Response(Protocol):
    """The answer of a server. Its body is what was sent: not decompressed, not decoded."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self, size: int) -> AsyncIterator[bytes]:
        """The body, in pieces of about `size` bytes. Raises if the connection ends before the body does."""
        ...


class OpenUrl(Protocol):
    """Sends a GET request with `Accept-Encoding: identity`.

    With a `start` above 0 it also sends `Range: bytes=<start>-` and `If-Range: <validator>`. What must not be reached
    it refuses with an exception that has a `code` and is not `retryable`; other exceptions count as network errors.
    """

    def __call__(self, url: str, *, start: int, validator: str | None) -> AbstractAsyncContextManager[Response]: ...


class DownloadFailed(JobsRefusal):
    """The other side did not do as it should; trying again may help, and goes on where this attempt was."""

    code = "INTERNAL_ERROR"
    retryable = True


class PartReplaced(JobsRefusal):
    """Somebody on this machine put another file in the place of ours; trying again may help, and starts over."""

    code = "INTERNAL_ERROR"
    retryable = True


class DownloadRefused(InvalidInput):
    """Trying again would end the same way."""


class FileNotThere(DownloadRefused):
    """The server knows no such file."""

    code = "NOT_FOUND"


class NotWanted(DownloadRefused):
    """What is there is too large, or not what was asked for; nothing of it is kept."""


def download_handler(
    handlers: Handlers,
    open_url: OpenUrl,
    *,
    job_type: str = "download_file",
    checkpoint_every: float = 1.0,
    stalled_after: float = 60.0,
    retry: Retry = Retry(),  # noqa: B008 (frozen)
    timeout: float | None = 3600.0,
    ttl: timedelta | None = None,
) -> Handler[DownloadFile, DownloadedFile]:
    """Register the handler of `job_type`.

    At most every `checkpoint_every` seconds it writes down how far it is; an attempt that receives nothing for
    `stalled_after` seconds has failed.
    """

    @handlers.job(job_type, retry=retry, timeout=timeout, ttl=ttl)
    async def download_file(ctx: Context, given: DownloadFile) -> DownloadedFile:
        return await download(ctx, given, open_url, checkpoint_every=checkpoint_every, stalled_after=stalled_after)

    return download_file


async def download(
    ctx: Context,
    given: DownloadFile,
    open_url: OpenUrl,
    *,
    checkpoint_every: float = 1.0,
    stalled_after: float = 60.0,
) -> DownloadedFile:
    """Download a file as the first part of another job, whose checkpoint is the download's until this returns."""
    began = time.monotonic()
    done = await _Download(ctx, given, open_url, checkpoint_every, stalled_after).run()
    return DownloadedFile(path=given.dest, bytes=done.bytes, sha256=done.sha256 or "", seconds=time.monotonic() - began)


def remove_download(dest: Path) -> None:
    """Remove what a download has left of `dest`, whole or in part. Blocks."""
    dest.unlink(missing_ok=True)
    Part(dest).remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A checkpoint: so many bytes of the part file are durable. With a `sha256`, they are all there are."""

    bytes: int = 0
    validator: str | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, data: Any) -> "Note":
        """From what an earlier execution wrote; whatever is no such note says that nothing is there."""
        match data:
            case {"bytes": int(count), "validator": str() | None as validator, "sha256": str(digest)} if count >= 0:
                return cls(bytes=count, validator=validator, sha256=digest)
            case {"bytes": int(count), "validator": str(validator)} if count > 0:
                return cls(bytes=count, validator=validator)
        return cls()

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"bytes": self.bytes, "validator": self.validator}
        return data if self.sha256 is None else data | {"sha256": self.sha256}


class Hashed:
    """A file that is hashed from its beginning. Methods block, and are called one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # as far as it is hashed
        self._hash = hashlib.sha256()
        self._fd = -1

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def open_if_there(self, flags: int = os.O_RDONLY) -> int:
        """Its size; -1 if there is no such file."""
        try:
            self._fd = os.open(self.path, flags | os.O_CLOEXEC)
        except FileNotFoundError:
            return -1
        return os.fstat(self._fd).st_size

    def read_some(self) -> bool:
        """Hash the next stretch; False at the end."""
        found = os.pread(self._fd, AT_ONCE, self.size)
        self._hash.update(found)
        self.size += len(found)
        return bool(found)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Part(Hashed):
    """The file that grows.

    INVARIANT: what is not the beginning of the same file gets a new inode. So an execution that lost its lease and
    does not know it yet can only write the same bytes as its successor, or into a file that has no name any more.
    """

    def __init__(self, dest: Path) -> None:
        super().__init__(dest.with_name(f"{dest.name}.part"))
        self.dest = dest

    def resume(self, most: int) -> None:
        """Open what is there, cut to `most` bytes; `read_some` is called next, until it has read them."""
        size = self.open_if_there(os.O_RDWR | os.O_NOFOLLOW)
        if size < 0:
            self.start_over()
        elif size > most:
            os.ftruncate(self._fd, most)

    def start_over(self) -> None:
        self.close()
        self.remove()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0
        self._hash = hashlib.sha256()

    def append(self, pieces: list[bytes]) -> None:
        data = b"".join(pieces)
        self._hash.update(data)
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._fd, rest, self.size)
            self.size += written
            rest = rest[written:]

    def sync(self) -> None:
        os.fsync(self._fd)

    def become_dest(self) -> None:
        """Give the finished file its name, for good."""
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
class Told:
    """What the head of an answer says."""

    status: int
    first: int  # the place of the first byte that follows; -1 if it is not said
    end: int | None  # the place behind the last
    total: int | None
    etag: str | None
    modified: str | None
    validator: str | None  # what identifies the file, byte for byte
    encoding: str

    @classmethod
    def by(cls, response: Response) -> "Told":
        named = {name.lower(): text.strip() for name, text in response.headers.items()}
        etag, modified = named.get("etag"), named.get("last-modified")
        first, end, total = _extent(response.status, named)
        return cls(
            status=response.status,
            first=first,
            end=end,
            total=total,
            etag=etag,
            modified=modified,
            validator=_validator(etag, modified, named.get("date")),
            encoding=named.get("content-encoding", "").lower(),
        )

    def contradicts(self, start: int, validator: str | None) -> bool:
        """Whether it says that what we have is not the beginning of what there is."""
        if self.status in {OK, NO_SUCH_RANGE}:
            return True
        return self.status == PARTIAL and (self.first != start or self.is_not(validator))

    def is_not(self, validator: str | None) -> bool:
        if validator is None:
            return False
        said = self.etag if validator.startswith('"') else self.modified
        return said is not None and said != validator


def _extent(status: int, named: Mapping[str, str]) -> tuple[int, int | None, int | None]:
    """The first byte, the end, and the size of the whole."""
    if status not in {PARTIAL, NO_SUCH_RANGE}:
        length = named.get("content-length", "")
        size = int(length) if NUMBER.fullmatch(length) else None
        return 0, size, size
    said = CONTENT_RANGE.fullmatch(named.get("content-range", ""))
    if said is None:
        return -1, None, None
    first, last, total = (None if text is None else int(text) for text in said.groups())
    if first is None or last is None:
        return -1, None, total
    if last < first or (total is not None and last >= total):
        return -1, None, None
    return first, last + 1, total


def _validator(etag: str | None, modified: str | None, date: str | None) -> str | None:
    # RFC 9110 13.1.5: If-Range takes a strong entity tag, or a date if there is none and it is strong in the sense
    # of 8.8.2.2: older than the answer by a second or more.
    if etag is not None:
        return etag if etag.startswith('"') else None
    if modified is None or date is None:
        return None
    try:
        age = parsedate_to_datetime(date) - parsedate_to_datetime(modified)
    except (ValueError, TypeError):
        return None
    return modified if age >= timedelta(seconds=1) else None


class _Download:
    """One execution."""

    def __init__(
        self, ctx: Context, given: DownloadFile, open_url: OpenUrl, checkpoint_every: float, stalled_after: float
    ) -> None:
        self._ctx = ctx
        self._given = given
        self._open_url = open_url
        self._every = checkpoint_every
        self._stalled_after = stalled_after
        self._part = Part(Path(given.dest))
        self._validator: str | None = None
        self._total: int | None = None
        self._arrived: list[bytes] = []  # and not written yet
        self._waiting = 0  # bytes of them
        self._saved_at = time.monotonic()
        self._new_starts = 0

    async def run(self) -> Note:
        note = Note.read(self._ctx.checkpoint)
        if note.sha256 is not None and await _digest_of(self._part.dest, note.bytes) == note.sha256:
            await _in_thread(self._part.remove)
            return note  # only the news of it was lost
        try:
            is_whole = await self._resume(note)
            while not is_whole:
                is_whole = await self._request()
            return await self._finish()
        except NotWanted:
            await _in_thread(self._part.remove)
            raise
        finally:
            await _in_thread(self._part.close)

    async def _resume(self, note: Note) -> bool:
        """Open the part file where `note` says it is; True if nothing is missing."""
        if note.bytes == 0 and note.sha256 is None:
            await _in_thread(self._part.start_over)
            return False
        await _in_thread(self._part.resume, note.bytes)
        while await _in_thread(self._part.read_some):
            pass
        if note.sha256 is not None:
            if note.sha256 == self._part.sha256:
                return True
            await self._start_over()  # it was whole, and somebody touched it
            return False
        self._validator = note.validator
        if self._part.size < note.bytes:  # somebody touched it
            await self._ctx.save_checkpoint(Note(bytes=self._part.size, validator=note.validator).data())
        return False

    async def _request(self) -> bool:
        """Ask for what is missing; True when nothing is."""
        start = self._part.size
        validator = self._validator if start else None
        async with self._open_url(self._given.url, start=start, validator=validator) as response:
            told = Told.by(response)
            if start and told.status == NO_SUCH_RANGE and told.total == start and not told.is_not(validator):
                return True
            if start and told.contradicts(start, validator):
                await self._start_over()
                if told.status != OK:
                    return False
            self._check(told)
            self._total = told.total
            if told.status == OK:
                self._validator = told.validator
            await self._receive(response, told.end)
        return told.status == OK or self._part.size == told.total

    def _check(self, told: "Told") -> None:
        """Raise unless a body follows that is what we asked for."""
        if told.status in NOT_THERE:
            raise FileNotThere(
                f"there is nothing at {self._where} (HTTP {told.status})", details={"status": told.status}
            )
        if told.status in WORTH_A_RETRY or told.status >= 500:
            raise DownloadFailed(f"{self._where} answered HTTP {told.status}", details={"status": told.status})
        if told.status not in {OK, PARTIAL}:
            raise DownloadRefused(f"{self._where} answered HTTP {told.status}", details={"status": told.status})
        if told.first != self._part.size:
            raise DownloadFailed(f"{self._where} sent a part that was not asked for", details={"status": told.status})
        if told.encoding not in {"", "identity"}:
            raise DownloadRefused(
                f"{self._where} is sent as `{told.encoding}`, not as it is", details={"status": told.status}
            )
        self._check_size(told.total or told.end or 0)  # before the first byte is read

    def _check_size(self, size: int) -> None:
        most = self._given.max_bytes
        if most is not None and size > most:
            raise NotWanted(f"{self._where} is larger than the {most:,} bytes allowed", details={"max_bytes": most})

    async def _receive(self, response: Response, end: int | None) -> None:
        """Write down what comes. If it stops coming, what came is kept for the next attempt."""
        pieces = response.chunks(min(self._given.chunk_size, AT_ONCE))
        try:
            while piece := await self._next(pieces):
                self._arrived.append(piece)
                self._waiting += len(piece)
                await self._keep_some(end)
        except (JobsRefusal, asyncio.CancelledError):
            raise
        except Exception:
            await self._save()
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        await self._write()
        if end is not None and self._part.size < end:
            await self._save()
            raise DownloadFailed(f"{self._where} ended after {self._part.size:,} of {end:,} bytes")

    async def _next(self, pieces: AsyncIterator[bytes]) -> bytes:
        """The next piece that is not empty; an empty one at the end."""
        try:
            async with asyncio.timeout(self._stalled_after):
                while True:
                    if piece := await anext(pieces):
                        return piece
        except StopAsyncIteration:
            return b""
        except TimeoutError:
            raise TimeoutError(f"{self._where} sent nothing for {self._stalled_after:g} s") from None

    async def _keep_some(self, end: int | None) -> None:
        size = self._part.size + self._waiting
        self._check_size(size)
        if end is not None and size > end:
            raise DownloadFailed(f"{self._where} sent more than the {end:,} bytes it announced")
        since = time.monotonic() - self._saved_at
        is_full = self._waiting >= self._given.chunk_size
        if since >= (self._every if is_full else max(self._every, 1.0)):
            await self._save()
        elif is_full:
            await self._write()

    async def _write(self) -> None:
        pieces, self._arrived, self._waiting = self._arrived, [], 0
        await _in_thread(self._part.append, pieces)

    async def _save(self) -> None:
        """Make durable what came so far, and only then say so."""
        await self._write()
        if self._validator is not None:  # else the next attempt could not know whether the rest belongs to it
            await _in_thread(self._part.sync)
            await self._ctx.save_checkpoint(Note(bytes=self._part.size, validator=self._validator).data())
        await self._report()
        self._saved_at = time.monotonic()

    async def _report(self) -> None:
        size, total = self._part.size, self._total
        if total is None:
            await self._ctx.report_progress(None, f"{size:,} bytes")
        else:
            await self._ctx.report_progress(size * 100 // max(total, 1), f"{size:,} of {total:,} bytes")

    async def _start_over(self) -> None:
        self._new_starts += 1
        if self._new_starts > MOST_NEW_STARTS:
            raise DownloadFailed(f"{self._where} keeps changing, or cannot send a part of a file as it says")
        self._validator = None
        await self._ctx.save_checkpoint(Note().data())
        await _in_thread(self._part.start_over)

    async def _finish(self) -> Note:
        done = Note(bytes=self._part.size, validator=self._validator, sha256=self._part.sha256)
        self._check_size(done.bytes)
        wanted = self._given.sha256
        if wanted is not None and wanted.lower() != done.sha256:
            raise NotWanted(
                f"{self._where} is not the file that was asked for: its SHA-256 is {done.sha256}",
                details={"sha256": done.sha256, "wanted": wanted.lower(), "bytes": done.bytes},
            )
        self._total = done.bytes
        await self._report()
        await _in_thread(self._part.sync)
        await self._ctx.save_checkpoint(done.data())  # and learn that the file is still ours to name
        await _in_thread(self._part.become_dest)
        return done

    @property
    def _where(self) -> str:
        """The address as it may be shown: without what may be secret in it."""
        try:
            parts = urlsplit(self._given.url)
        except ValueError:
            return "the address"
        return f"`{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}`"


async def _digest_of(path: Path, size: int) -> str | None:
    """The SHA-256 of a file; None if it is not there or not of this size."""
    file = Hashed(path)
    try:
        if await _in_thread(file.open_if_there) != size:
            return None
        while await _in_thread(file.read_some):
            pass
        return file.sha256
    finally:
        await _in_thread(file.close)


async def _in_thread(call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run what blocks in a thread. Who is cancelled meanwhile waits for it: no file is closed under its hands."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **named))
    interruption: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
    if interruption is not None:
        work.exception()  # nobody asks for it any more
        raise interruption
    return work.result()
