"""A job that downloads a file and resumes after an interruption.

    download = register_download(handlers, open_url)
    await jobs.submit(download, DownloadFile(url="https://…", dest="/data/manual.pdf"), tenant=tenant)

The engine has no HTTP client: the service passes `open_url` and so decides what may be reached.

Received bytes are written to `<dest>.part`, made durable, and then recorded in the job's checkpoint; the next execution
requests the rest on the condition that the file is still the same. If the file has changed, or the server cannot tell
or sends something else, the download starts over. `dest` appears complete and checked, or not at all.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import Field
from pydantic.dataclasses import dataclass

from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from service_jobs.job import InvalidInput, JobsRefusal, Retry
from service_jobs.part_file import (
    BLOCK_SIZE,
    OK,
    PARTIAL,
    RANGE_NOT_SATISFIABLE,
    DownloadCheckpoint,
    HashedFile,
    PartialFile,
    ResponseHead,
)

P = ParamSpec("P")
T = TypeVar("T")

NOT_FOUND_STATUSES: Final = frozenset({404, 410})
RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
MAX_RESTARTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFile:
    """What to download. An existing `dest` is replaced; its folder must exist, and `<dest>.part` belongs to the job."""

    url: Annotated[str, Field(min_length=1, max_length=8_192)]
    dest: Annotated[str, Field(pattern=r"^/[^\x00]*[^/\x00]$", description="an absolute path")]
    chunk_size: Annotated[int, Field(ge=1024, le=64 * 2**20, description="bytes written at a time")] = 2**20
    max_bytes: Annotated[int, Field(ge=0)] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")] | None = None
    label: Annotated[str, Field(description="how errors name it, if its path may be secret too")] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadedFile:
    """The downloaded file. `seconds` is the duration of the execution that finished it."""

    path: str
    bytes: int
    sha256: str
    seconds: float


class DownloadResponse(Protocol):
    """A server's response. Its body is what was sent: not decompressed, not decoded."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self, size: int) -> AsyncIterator[bytes]:
        """The body, in pieces of about `size` bytes. Raises if the connection ends before the body does."""
        ...


class OpenUrl(Protocol):
    """Sends a GET request with `Accept-Encoding: identity`.

    With a `start` above 0 it also sends `Range: bytes=<start>-` and `If-Range: <validator>`. It refuses a forbidden
    address with an exception that has a `code` and is not `retryable`; other exceptions count as network errors.
    """

    def __call__(
        self, url: str, *, start: int, validator: str | None
    ) -> AbstractAsyncContextManager[DownloadResponse]: ...


class DownloadFailed(JobsRefusal):
    """The server failed; the next attempt resumes where this one stopped."""

    code = "INTERNAL_ERROR"
    retryable = True


class DownloadRefused(InvalidInput):
    """The download cannot succeed; another attempt would not help."""


class RemoteFileNotFound(DownloadRefused):
    """The server has no such file."""

    code = "NOT_FOUND"


class UnwantedFile(DownloadRefused):
    """The file is too large, or has another SHA-256; nothing of it is kept."""


def register_download(
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

    It saves a checkpoint at most every `checkpoint_every` seconds; an attempt that receives nothing for `stalled_after`
    seconds fails.
    """

    @handlers.job(job_type, retry=retry, timeout=timeout, ttl=ttl)
    async def download_file(ctx: Context, file: DownloadFile) -> DownloadedFile:
        return await download(ctx, file, open_url, checkpoint_every=checkpoint_every, stalled_after=stalled_after)

    return download_file


async def download(
    ctx: Context,
    file: DownloadFile,
    open_url: OpenUrl,
    *,
    checkpoint_every: float = 1.0,
    stalled_after: float = 60.0,
) -> DownloadedFile:
    """Download a file as the first part of another job; until it returns, the job's checkpoint is the download's."""
    began = time.monotonic()
    checkpoint = await _DownloadRun(ctx, file, open_url, checkpoint_every, stalled_after).run()
    return DownloadedFile(
        path=file.dest, bytes=checkpoint.bytes, sha256=checkpoint.sha256 or "", seconds=time.monotonic() - began
    )


def remove_download(dest: Path) -> None:
    """Remove `dest` and its part file. Blocks."""
    dest.unlink(missing_ok=True)
    PartialFile(dest).remove()


class _DownloadRun:
    """One execution."""

    def __init__(
        self, ctx: Context, file: DownloadFile, open_url: OpenUrl, checkpoint_every: float, stalled_after: float
    ) -> None:
        self._ctx = ctx
        self._file = file
        self._open_url = open_url
        self._checkpoint_every = checkpoint_every
        self._stalled_after = stalled_after
        self._part = PartialFile(Path(file.dest))
        self._validator: str | None = None
        self._total: int | None = None
        self._arrived: list[bytes] = []  # received and not written yet
        self._arrived_bytes = 0
        self._saved_at = time.monotonic()
        self._restarts = 0

    async def run(self) -> DownloadCheckpoint:
        note = DownloadCheckpoint.from_json(self._ctx.checkpoint)
        if note.sha256 is not None and await _hash_file(self._part.dest, note.bytes) == note.sha256:
            await _run_in_thread(self._part.remove)
            return note  # the file is complete; only the job's end was lost
        try:
            is_whole = await self._resume(note)
            while not is_whole:
                is_whole = await self._request_missing()
            return await self._finish_file()
        except UnwantedFile:
            await _run_in_thread(self._part.remove)
            raise
        finally:
            await _run_in_thread(self._part.close)

    async def _resume(self, note: DownloadCheckpoint) -> bool:
        """Open the part file at the position of `note`; True if nothing is missing."""
        if note.bytes == 0 and note.sha256 is None:
            await _run_in_thread(self._part.start_over)
            return False
        await _run_in_thread(self._part.resume, note.bytes)
        while await _run_in_thread(self._part.hash_next_block):
            pass
        if note.sha256 is not None:
            if note.sha256 == self._part.sha256:
                return True
            await self._start_over()  # it was complete, and somebody changed it
            return False
        self._validator = note.validator
        if self._part.size < note.bytes:  # somebody changed it
            await self._ctx.save_checkpoint(
                DownloadCheckpoint(bytes=self._part.size, validator=note.validator).to_json()
            )
        return False

    async def _request_missing(self) -> bool:
        """Request the missing bytes; True when nothing is missing."""
        start = self._part.size
        validator = self._validator if start else None
        async with self._open_url(self._file.url, start=start, validator=validator) as response:
            head = ResponseHead.from_headers(response.status, response.headers)
            if (
                start
                and head.status == RANGE_NOT_SATISFIABLE
                and head.total == start
                and not head.differs_from(validator)
            ):
                return True
            if start and head.contradicts_part(start, validator):
                await self._start_over()
                if head.status != OK:
                    return False
            self._require_usable(head)
            self._total = head.total
            if head.status == OK:
                self._validator = head.validator
            await self._receive_body(response, head.end)
        return head.status == OK or self._part.size == head.total

    def _require_usable(self, head: ResponseHead) -> None:
        """Raise unless the requested body follows."""
        url, details = self._printable_url, {"status": head.status}
        if head.status in NOT_FOUND_STATUSES:
            raise RemoteFileNotFound(f"there is nothing at {url} (HTTP {head.status})", details=details)
        if head.status in RETRYABLE_STATUSES or head.status >= 500:
            raise DownloadFailed(f"{url} answered HTTP {head.status}", details=details)
        if head.status not in {OK, PARTIAL}:
            raise DownloadRefused(f"{url} answered HTTP {head.status}", details=details)
        if head.first != self._part.size:
            raise DownloadFailed(f"{url} sent another part than the requested one", details=details)
        if head.encoding not in {"", "identity"}:
            raise DownloadRefused(
                f"{url} uses content encoding `{head.encoding}`; only identity is supported", details=details
            )
        self._require_allowed_size(head.total or head.end or 0)  # before the first byte is read

    def _require_allowed_size(self, size: int) -> None:
        most = self._file.max_bytes
        if most is not None and size > most:
            raise UnwantedFile(
                f"{self._printable_url} is larger than the {most:,} bytes allowed", details={"max_bytes": most}
            )

    async def _receive_body(self, response: DownloadResponse, end: int | None) -> None:
        """Write what arrives. If the connection breaks, the next attempt continues from there."""
        pieces = response.chunks(min(self._file.chunk_size, BLOCK_SIZE))
        try:
            while piece := await self._read_next_piece(pieces):
                self._arrived.append(piece)
                self._arrived_bytes += len(piece)
                await self._write_or_save(end)
        except (JobsRefusal, asyncio.CancelledError):
            raise
        except Exception:
            await self._save_checkpoint()
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        await self._write_arrived()
        if end is not None and self._part.size < end:
            await self._save_checkpoint()
            raise DownloadFailed(f"{self._printable_url} ended after {self._part.size:,} of {end:,} bytes")

    async def _read_next_piece(self, pieces: AsyncIterator[bytes]) -> bytes:
        """The next piece that is not empty; empty at the end."""
        try:
            async with asyncio.timeout(self._stalled_after):
                while True:
                    if piece := await anext(pieces):
                        return piece
        except StopAsyncIteration:
            return b""
        except TimeoutError:
            raise TimeoutError(f"{self._printable_url} sent nothing for {self._stalled_after:g} s") from None

    async def _write_or_save(self, end: int | None) -> None:
        size = self._part.size + self._arrived_bytes
        self._require_allowed_size(size)
        if end is not None and size > end:
            raise DownloadFailed(f"{self._printable_url} sent more than the {end:,} bytes it announced")
        since = time.monotonic() - self._saved_at
        is_full = self._arrived_bytes >= self._file.chunk_size
        if since >= (self._checkpoint_every if is_full else max(self._checkpoint_every, 1.0)):
            await self._save_checkpoint()
        elif is_full:
            await self._write_arrived()

    async def _write_arrived(self) -> None:
        pieces, self._arrived, self._arrived_bytes = self._arrived, [], 0
        await _run_in_thread(self._part.append, pieces)

    async def _save_checkpoint(self) -> None:
        """Make durable what arrived so far, and only then record it."""
        await self._write_arrived()
        if self._validator is not None:  # without one, the next attempt could not tell whether the rest belongs to it
            await _run_in_thread(self._part.sync)
            await self._ctx.save_checkpoint(
                DownloadCheckpoint(bytes=self._part.size, validator=self._validator).to_json()
            )
        await self._report_progress()
        self._saved_at = time.monotonic()

    async def _report_progress(self) -> None:
        size, total = self._part.size, self._total
        if total is None:
            await self._ctx.report_progress(None, f"{size:,} bytes")
        else:
            await self._ctx.report_progress(size * 100 // max(total, 1), f"{size:,} of {total:,} bytes")

    async def _start_over(self) -> None:
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            raise DownloadFailed(
                f"{self._printable_url} changes during the download, or does not support ranges correctly"
            )
        self._validator = None
        await self._ctx.save_checkpoint(DownloadCheckpoint().to_json())
        await _run_in_thread(self._part.start_over)

    async def _finish_file(self) -> DownloadCheckpoint:
        checkpoint = DownloadCheckpoint(bytes=self._part.size, validator=self._validator, sha256=self._part.sha256)
        self._require_allowed_size(checkpoint.bytes)
        expected_sha256 = self._file.sha256
        if expected_sha256 is not None and expected_sha256.lower() != checkpoint.sha256:
            raise UnwantedFile(
                f"{self._printable_url} is not the requested file: its SHA-256 is {checkpoint.sha256}",
                details={"sha256": checkpoint.sha256, "wanted": expected_sha256.lower(), "bytes": checkpoint.bytes},
            )
        self._total = checkpoint.bytes
        await self._report_progress()
        await _run_in_thread(self._part.sync)
        await self._ctx.save_checkpoint(
            checkpoint.to_json()
        )  # raises if the lease is lost, before the file gets its name
        await _run_in_thread(self._part.rename_to_dest)
        return checkpoint

    @property
    def _printable_url(self) -> str:
        """The label, or the URL without user, password and query, which may be secret."""
        if self._file.label is not None:
            return self._file.label
        try:
            parts = urlsplit(self._file.url)
        except ValueError:
            return "the URL"
        return f"`{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}`"


async def _hash_file(path: Path, size: int) -> str | None:
    """The SHA-256 of a file; None if it does not exist or has another size."""
    file = HashedFile(path)
    try:
        if await _run_in_thread(file.open_if_exists) != size:
            return None
        while await _run_in_thread(file.hash_next_block):
            pass
        return file.sha256
    finally:
        await _run_in_thread(file.close)


async def _run_in_thread(call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run a blocking call in a thread. If cancelled, wait for it first: the file must not be closed while it runs."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **named))
    interruption: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        work.exception()  # mark it as retrieved
        raise interruption
    return work.result()
