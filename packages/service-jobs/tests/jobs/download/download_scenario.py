"""One download and its executions, without a database."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import orjson
from service_jobs.context import Connection, Context, Lease, ProgressCallback
from service_jobs.download import DownloadedFile, DownloadFile, OpenUrl, register_download
from service_jobs.execution import execute
from service_jobs.handler import Handler, Handlers
from service_jobs.job import Ending, Outcome
from service_jobs.job_spec import JobSpec
from tests.jobs.support.file_server import FileServer, open_url

T = TypeVar("T")
CHUNK = 64 * 1024
CONTENT = b"".join(hashlib.sha256(number.to_bytes(4)).digest() for number in range(20 * CHUNK // 32))
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FUTURE = "Sun, 06 Nov 2094 08:49:37 GMT"
PAST = "Sun, 06 Nov 1994 08:49:37 GMT"


class RecordingBackend:
    """What stands behind a context here: it keeps what a job saves, and may lose the lease."""

    def __init__(self) -> None:
        self.checkpoints: list[dict[str, Any]] = []
        self.progress: list[dict[str, Any]] = []
        self.lost_after: int | None = None
        self.on_checkpoint: Callable[[dict[str, Any]], None] = lambda _: None

    async def save(self, lease: Lease, column: str, text: str) -> bool:
        if self.lost_after is not None and len(self.checkpoints) >= self.lost_after:
            return False
        data = orjson.loads(text)
        if column == "checkpoint":
            self.on_checkpoint(data)
        (self.checkpoints if column == "checkpoint" else self.progress).append(data)
        return True

    async def begin(self, ctx: Context) -> Connection:
        raise NotImplementedError

    async def end_step(self, ctx: Context, text: str) -> bool:
        raise NotImplementedError

    async def compute(
        self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: ProgressCallback | None
    ) -> T:
        raise NotImplementedError

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        raise NotImplementedError


@dataclass
class DownloadScenario:
    """One job and its executions."""

    server: FileServer
    dest: Path
    record: RecordingBackend
    opening: OpenUrl = open_url
    stalled_after: float = 30.0
    checkpoint: Any = None

    @property
    def part(self) -> Path:
        return self.dest.with_name("file.bin.part")

    def build_input(self, **more: Any) -> DownloadFile:
        plain: dict[str, Any] = {"url": self.server.url, "dest": str(self.dest), "chunk_size": CHUNK}
        return DownloadFile(**plain | more)

    async def run_attempt(self, **more: Any) -> Outcome:
        """Run the job once more, from its last checkpoint, with what `more` changes of its input."""
        handler = register_download(Handlers(), self.opening, checkpoint_every=0.0, stalled_after=self.stalled_after)
        checkpoint = self.record.checkpoints[-1] if self.record.checkpoints else self.checkpoint
        lease = Lease(UUID(int=1), UUID(int=2), "download_file", "somebody", 1)
        ctx = Context(self.record, lease, max_attempts=5, checkpoint=checkpoint)
        return await execute(handler, ctx, handler.encode_input(self.build_input(**more)))

    def require_arrived(self, outcome: Outcome, content: bytes = CONTENT) -> DownloadedFile:
        """Check that the file is there and the outcome says so."""
        assert outcome.ending is Ending.SUCCEEDED, outcome.error
        assert outcome.result is not None
        downloaded = DownloadedFile(**orjson.loads(outcome.result))
        assert self.dest.read_bytes() == content
        assert (downloaded.path, downloaded.bytes) == (str(self.dest), len(content))
        assert downloaded.sha256 == hashlib.sha256(content).hexdigest()
        assert not self.part.exists()
        return downloaded

    async def run_interrupted(self, after: int = 10 * CHUNK) -> None:
        """Let one attempt fail with `after` bytes in the part file and in the checkpoint."""
        self.server.cut_after = after
        outcome = await self.run_attempt()
        assert outcome.ending is Ending.RETRY
        assert self.part.stat().st_size == after == self.record.checkpoints[-1]["bytes"]
