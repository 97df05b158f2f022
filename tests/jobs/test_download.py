"""Downloading a file: it arrives whole or not at all, and no byte that is safely here is asked for again."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
import orjson
import pytest
from pydantic import ValidationError

from bpc.core.ids import TenantId
from bpc.db.address import Address
from bpc.db.connection import connect
from bpc.db.roles import APP, SYSTEM
from bpc.jobs.attempt import execute
from bpc.jobs.context import Connection, Context, Held, HowFar, Wish
from bpc.jobs.download import DownloadedFile, DownloadFile, Note, OpenUrl, download_handler
from bpc.jobs.errors import InvalidInput, LeaseLost
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.outcome import Ending, Outcome
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.worker import Options, Worker
from tests.jobs.http_server import Answer, ClientResponse, FileServer, Request, open_url
from tests.jobs.working import until_status

T = TypeVar("T")
CHUNK = 64 * 1024
CONTENT = b"".join(hashlib.sha256(number.to_bytes(4)).digest() for number in range(20 * CHUNK // 32))
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FUTURE = "Sun, 06 Nov 2094 08:49:37 GMT"
PAST = "Sun, 06 Nov 1994 08:49:37 GMT"


class Record:
    """What stands behind a context here: it keeps what a job saves, and may lose the lease."""

    def __init__(self) -> None:
        self.checkpoints: list[dict[str, Any]] = []
        self.progress: list[dict[str, Any]] = []
        self.lost_after: int | None = None
        self.seen: Callable[[dict[str, Any]], None] = lambda _: None

    async def save(self, held: Held, column: str, text: str) -> bool:
        if self.lost_after is not None and len(self.checkpoints) >= self.lost_after:
            return False
        data = orjson.loads(text)
        if column == "checkpoint":
            self.seen(data)
        (self.checkpoints if column == "checkpoint" else self.progress).append(data)
        return True

    async def begin(self, ctx: Context) -> Connection:
        raise NotImplementedError

    async def end_step(self, ctx: Context, text: str) -> bool:
        raise NotImplementedError

    async def compute(
        self, ctx: Context, function: Callable[..., T], arguments: tuple[Any, ...], told: HowFar | None
    ) -> T:
        raise NotImplementedError

    def wish(self, ctx: Context, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:
        raise NotImplementedError


@dataclass
class Downloads:
    """One job and its executions."""

    server: FileServer
    dest: Path
    record: Record
    opening: OpenUrl = open_url
    stalled_after: float = 30.0
    checkpoint: Any = None

    @property
    def part(self) -> Path:
        return self.dest.with_name("file.bin.part")

    def given(self, **more: Any) -> DownloadFile:
        plain: dict[str, Any] = {"url": self.server.url, "dest": str(self.dest), "chunk_size": CHUNK}
        return DownloadFile(**plain | more)

    async def attempt(self, **more: Any) -> Outcome:
        """Run the job once more, from its last checkpoint, with what `more` changes of its input."""
        handler = download_handler(Handlers(), self.opening, checkpoint_every=0.0, stalled_after=self.stalled_after)
        checkpoint = self.record.checkpoints[-1] if self.record.checkpoints else self.checkpoint
        held = Held(UUID(int=1), UUID(int=2), "download_file", "somebody", 1)
        ctx = Context(self.record, held, max_attempts=5, checkpoint=checkpoint)
        return await execute(handler, ctx, handler.input_text(self.given(**more)))

    def has_arrived(self, outcome: Outcome, content: bytes = CONTENT) -> DownloadedFile:
        """Check that the file is there and the outcome says so."""
        assert outcome.ending is Ending.SUCCEEDED, outcome.error
        assert outcome.result is not None
        made = DownloadedFile(**orjson.loads(outcome.result))
        assert self.dest.read_bytes() == content
        assert (made.path, made.bytes) == (str(self.dest), len(content))
        assert made.sha256 == hashlib.sha256(content).hexdigest()
        assert not self.part.exists()
        return made

    async def interrupted(self, after: int = 10 * CHUNK) -> None:
        """Let one attempt fail with `after` bytes in the part file and in the checkpoint."""
        self.server.cut_after = after
        outcome = await self.attempt()
        assert outcome.ending is Ending.RETRY
        assert self.part.stat().st_size == after == self.record.checkpoints[-1]["bytes"]


@pytest.fixture
async def downloads(tmp_path: Path) -> AsyncIterator[Downloads]:
    async with FileServer(CONTENT) as server:
        yield Downloads(server, tmp_path / "file.bin", Record())


# --- Arriving ----------------------------------------------------------------------------------------------------


async def test_a_file_arrives(downloads: Downloads) -> None:
    outcome = await downloads.attempt(sha256=DIGEST.upper(), max_bytes=len(CONTENT))

    assert downloads.has_arrived(outcome).seconds >= 0
    assert downloads.server.starts == [0]
    assert "range" not in downloads.server.requests[0].headers


async def test_checkpoints_and_progress_say_how_far_it_is(downloads: Downloads) -> None:
    durable: list[int] = []
    downloads.record.seen = lambda _: durable.append(downloads.part.stat().st_size)

    await downloads.attempt()

    saved = [checkpoint["bytes"] for checkpoint in downloads.record.checkpoints]
    assert saved == sorted(saved)
    assert durable == saved
    assert len(saved) >= 5
    assert saved[-1] == len(CONTENT)
    assert downloads.record.checkpoints[0]["validator"] == '"v1"'
    assert [note["percent"] for note in downloads.record.progress][-1] == 100
    assert downloads.record.progress[-1]["message"] == "1,310,720 of 1,310,720 bytes"


async def test_an_empty_file_arrives_too(downloads: Downloads) -> None:
    downloads.server.content = b""

    arrived = downloads.has_arrived(await downloads.attempt(max_bytes=0), b"")

    assert arrived.bytes == 0


async def test_a_file_of_unknown_length_arrives(downloads: Downloads) -> None:
    downloads.server.says_length = False

    downloads.has_arrived(await downloads.attempt())

    assert downloads.record.progress[0]["percent"] is None


async def test_what_was_at_the_destination_is_replaced_at_the_end_and_not_before(downloads: Downloads) -> None:
    downloads.dest.write_bytes(b"old")
    downloads.part.write_bytes(b"of somebody else, and longer than nothing")

    await downloads.interrupted()
    assert downloads.dest.read_bytes() == b"old"

    downloads.has_arrived(await downloads.attempt())


async def test_a_link_planted_at_the_part_file_is_not_followed(downloads: Downloads, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    downloads.part.symlink_to(tmp_path / "precious")

    downloads.has_arrived(await downloads.attempt())

    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not downloads.dest.is_symlink()


# --- Going on ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True], ids=["closed", "reset"])
async def test_after_a_broken_connection_only_the_rest_is_asked_for(downloads: Downloads, hard: bool) -> None:
    downloads.server.cut_hard = hard
    downloads.server.cut_after = 10 * CHUNK + 5
    first = await downloads.attempt()
    had = downloads.record.checkpoints[-1]["bytes"]

    second = await downloads.attempt(sha256=DIGEST)

    assert first.ending is Ending.RETRY
    assert first.error is not None
    assert first.error.code == "INTERNAL_ERROR"
    assert had > 0 if hard else had == 10 * CHUNK + 5
    downloads.has_arrived(second)
    assert downloads.server.starts == [0, had]
    assert downloads.server.requests[1].if_range == '"v1"'


async def test_a_body_that_ends_early_says_so(downloads: Downloads) -> None:
    downloads.server.cut_after = 1000

    outcome = await downloads.attempt()

    assert outcome.error is not None
    assert outcome.error.message == f"`{downloads.server.url}` ended after 1,000 of 1,310,720 bytes"


async def test_a_part_file_that_is_longer_than_the_checkpoint_is_cut(downloads: Downloads) -> None:
    await downloads.interrupted()
    with downloads.part.open("ab") as part:
        part.write(b"never made durable")

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK]


async def test_a_part_file_that_is_shorter_than_the_checkpoint_goes_on_at_its_end(downloads: Downloads) -> None:
    await downloads.interrupted()
    os.truncate(downloads.part, 3 * CHUNK)

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 3 * CHUNK]


async def test_a_part_file_that_is_gone_starts_over(downloads: Downloads) -> None:
    await downloads.interrupted()
    downloads.part.unlink()

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 0]


async def test_a_checkpoint_of_something_else_is_no_checkpoint(downloads: Downloads) -> None:
    for odd in [7, "x", {}, {"bytes": "7"}, {"bytes": -1, "validator": "v"}, {"bytes": 5, "validator": None}]:
        assert Note.read(odd) == Note()
    downloads.checkpoint = {"page": 3}
    downloads.part.write_bytes(CONTENT[: 3 * CHUNK])

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0]


async def test_a_server_may_send_less_than_was_asked_for_at_a_time(downloads: Downloads) -> None:
    def in_portions(request: Request) -> Answer | None:
        if "range" not in request.headers:
            return None
        end = min(request.start + 4 * CHUNK, len(CONTENT))
        span = {"Content-Range": f"bytes {request.start}-{end - 1}/{len(CONTENT)}", "ETag": '"v1"'}
        return Answer(206, span, CONTENT[request.start : end])

    await downloads.interrupted()
    downloads.server.instead = in_portions

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 14 * CHUNK, 18 * CHUNK]


async def test_a_server_may_not_know_the_size_of_the_whole(downloads: Downloads) -> None:
    def of_unknown_size(request: Request) -> Answer | None:
        if not 0 < request.start < len(CONTENT):
            return None
        return Answer(206, {"Content-Range": f"bytes {request.start}-{len(CONTENT) - 1}/*"}, CONTENT[request.start :])

    await downloads.interrupted()
    downloads.server.instead = of_unknown_size

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, len(CONTENT)]


async def test_a_date_will_do_if_there_is_no_tag(downloads: Downloads) -> None:
    downloads.server.etag = None
    downloads.server.headers = {"Last-Modified": PAST, "Date": FUTURE}
    await downloads.interrupted()

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK]
    assert downloads.server.requests[1].if_range == PAST


# --- Starting over -----------------------------------------------------------------------------------------------


async def test_a_file_that_changed_is_downloaded_anew(downloads: Downloads) -> None:
    await downloads.interrupted()
    downloads.server.content = changed = CONTENT[::-1]
    downloads.server.etag = '"v2"'

    downloads.has_arrived(await downloads.attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK]  # the answer to the second was the whole


async def test_a_file_that_changed_is_noticed_by_its_tag_if_the_server_does_not_care(downloads: Downloads) -> None:
    await downloads.interrupted()
    downloads.server.content = changed = CONTENT[::-1]
    downloads.server.etag = '"v2"'
    downloads.server.instead = lambda request: (
        Answer(
            206,
            {"ETag": '"v2"', "Content-Range": f"bytes {request.start}-{len(changed) - 1}/{len(changed)}"},
            changed[request.start :],
        )
        if request.start
        else None
    )

    downloads.has_arrived(await downloads.attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_server_without_ranges_sends_the_whole(downloads: Downloads) -> None:
    await downloads.interrupted()
    downloads.server.knows_ranges = False

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK]


@pytest.mark.parametrize(
    ("etag", "headers"),
    [
        (None, {}),
        ('W/"v1"', {}),
        ('W/"v1"', {"Last-Modified": PAST, "Date": FUTURE}),
        (None, {"Last-Modified": PAST}),
        (None, {"Last-Modified": PAST, "Date": PAST}),
        (None, {"Last-Modified": "yesterday", "Date": FUTURE}),
        (None, {"Last-Modified": "06 Nov 1994 08:49:37 -0000", "Date": FUTURE}),
    ],
)
async def test_without_a_sure_mark_nothing_is_put_together(
    downloads: Downloads, etag: str | None, headers: dict[str, str]
) -> None:
    downloads.server.etag = etag
    downloads.server.headers = headers
    downloads.server.cut_after = 10 * CHUNK
    assert (await downloads.attempt()).ending is Ending.RETRY

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 0]


@pytest.mark.parametrize(
    "said",
    ["bytes 0-9/1310720", "bytes 655360-5/1310720", "bytes 655360-1310720/1310720", "bytes */7", "lines 1-2/3", ""],
)
async def test_a_part_that_is_not_the_one_asked_for_is_not_used(downloads: Downloads, said: str) -> None:
    await downloads.interrupted()
    downloads.server.instead = lambda request: Answer(206, {"Content-Range": said}, b"wrong") if request.start else None

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_part_that_nobody_asked_for_is_refused(downloads: Downloads) -> None:
    downloads.server.instead = lambda _: Answer(206, {"Content-Range": "bytes 5-9/10"}, b"wrong")

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "was not asked for" in outcome.error.message


async def test_all_that_is_there_needs_no_more(downloads: Downloads) -> None:
    await downloads.interrupted(after=10 * CHUNK)
    downloads.server.content = short = CONTENT[: 10 * CHUNK]

    downloads.has_arrived(await downloads.attempt(), short)

    assert downloads.server.starts == [0, 10 * CHUNK]  # answered with 416


@pytest.mark.parametrize(("length", "etag"), [(9 * CHUNK, '"v1"'), (10 * CHUNK, '"v2"')])
async def test_a_file_that_shrank_or_changed_is_downloaded_anew(downloads: Downloads, length: int, etag: str) -> None:
    await downloads.interrupted(after=10 * CHUNK)
    downloads.server.content = changed = CONTENT[::-1][:length]
    downloads.server.instead = lambda request: (
        Answer(416, {"ETag": etag, "Content-Range": f"bytes */{length}"}) if request.start else None
    )

    downloads.has_arrived(await downloads.attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_server_that_always_changes_its_mind_is_given_up_for_now(downloads: Downloads) -> None:
    def mad(request: Request) -> Answer:
        if request.start:
            return Answer(416)
        return Answer(206, {"Content-Range": "bytes 0-999/*"}, CONTENT[:1000])

    downloads.server.instead = mad

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "keeps changing" in outcome.error.message
    assert len(downloads.server.requests) == 6


# --- Refusing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "ending", "code"),
    [
        (500, Ending.RETRY, "INTERNAL_ERROR"),
        (503, Ending.RETRY, "INTERNAL_ERROR"),
        (408, Ending.RETRY, "INTERNAL_ERROR"),
        (425, Ending.RETRY, "INTERNAL_ERROR"),
        (429, Ending.RETRY, "INTERNAL_ERROR"),
        (404, Ending.FAILED, "NOT_FOUND"),
        (410, Ending.FAILED, "NOT_FOUND"),
        (400, Ending.FAILED, "VALIDATION_ERROR"),
        (403, Ending.FAILED, "VALIDATION_ERROR"),
        (416, Ending.FAILED, "VALIDATION_ERROR"),
        (302, Ending.FAILED, "VALIDATION_ERROR"),
        (204, Ending.FAILED, "VALIDATION_ERROR"),
    ],
)
async def test_what_a_server_refuses_is_tried_again_only_if_that_may_help(
    downloads: Downloads, status: int, ending: Ending, code: str
) -> None:
    downloads.server.instead = lambda _: Answer(status)

    outcome = await downloads.attempt()

    assert outcome.ending is ending
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details) == (code, {"status": status})
    assert not downloads.dest.exists()


async def test_an_error_in_between_costs_nothing_that_is_here(downloads: Downloads) -> None:
    await downloads.interrupted()
    downloads.server.instead = lambda _: Answer(503)
    assert (await downloads.attempt()).ending is Ending.RETRY
    downloads.server.instead = lambda _: None

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 10 * CHUNK]


@pytest.mark.parametrize("says_length", [True, False])
async def test_a_file_that_is_too_large_is_refused_and_removed(downloads: Downloads, says_length: bool) -> None:
    downloads.server.says_length = says_length

    outcome = await downloads.attempt(max_bytes=5 * CHUNK)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "VALIDATION_ERROR"
    assert outcome.error.message == f"`{downloads.server.url}` is larger than the 327,680 bytes allowed"
    assert not downloads.part.exists()
    assert not downloads.dest.exists()


async def test_another_file_than_the_one_wanted_is_refused_and_removed(downloads: Downloads) -> None:
    outcome = await downloads.attempt(sha256="0" * 64)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "VALIDATION_ERROR"
    assert outcome.error.details["sha256"] == DIGEST
    assert not downloads.part.exists()
    assert not downloads.dest.exists()


async def test_a_compressed_body_is_refused(downloads: Downloads) -> None:
    downloads.server.headers = {"Content-Encoding": "gzip"}

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert "sent as `gzip`" in outcome.error.message


async def test_more_than_was_announced_is_refused(downloads: Downloads) -> None:
    downloads.server.headers = {"Content-Length": "1000"}

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "more than the 1,000 bytes" in outcome.error.message


async def test_secrets_in_an_address_are_not_shown(downloads: Downloads) -> None:
    downloads.server.instead = lambda _: Answer(403)
    secret = downloads.server.url.replace("//", "//me:hush@") + "?token=hush"

    outcome = await downloads.attempt(url=secret)

    assert outcome.error is not None
    assert "hush" not in outcome.error.text()


async def test_what_the_caller_does_not_open_is_refused_as_the_caller_says(downloads: Downloads) -> None:
    class Blocked(InvalidInput):
        code = "OUTBOUND_BLOCKED"

    @asynccontextmanager
    async def guarded(url: str, *, start: int, validator: str | None) -> AsyncIterator[ClientResponse]:
        raise Blocked(f"`{url}` is not to be reached")
        yield

    downloads.opening = guarded

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "OUTBOUND_BLOCKED"


async def test_a_server_that_is_not_there_is_tried_again(downloads: Downloads) -> None:
    outcome = await downloads.attempt(url="http://127.0.0.1:1/")

    assert outcome.ending is Ending.RETRY


async def test_a_folder_that_is_not_there_is_tried_again(downloads: Downloads, tmp_path: Path) -> None:
    outcome = await downloads.attempt(dest=str(tmp_path / "not mounted" / "file"))

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "No such file or directory" in outcome.error.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": ""},
        {"dest": "relative"},
        {"dest": "/folder/"},
        {"dest": "/nul\x00"},
        {"chunk_size": 10},
        {"chunk_size": 2**30},
        {"max_bytes": -1},
        {"sha256": "abc"},
        {"sha256": "0" * 64 + "\n"},
    ],
)
def test_an_input_that_makes_no_sense_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DownloadFile(**{"url": "http://x/", "dest": "/file"} | wrong)


# --- Being interrupted -------------------------------------------------------------------------------------------


async def test_a_server_that_falls_silent_is_given_up_and_what_came_is_kept(downloads: Downloads) -> None:
    downloads.server.hold_at = 10 * CHUNK
    downloads.stalled_after = 0.2

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert outcome.error.message == f"TimeoutError: `{downloads.server.url}` sent nothing for 0.2 s"
    assert downloads.record.checkpoints[-1]["bytes"] == 10 * CHUNK
    downloads.has_arrived(await downloads.attempt())
    assert downloads.server.starts == [0, 10 * CHUNK]


async def test_a_cancelled_download_leaves_no_open_file_and_can_go_on(downloads: Downloads) -> None:
    downloads.server.hold_at = 10 * CHUNK + 5
    call = asyncio.create_task(downloads.attempt())
    await downloads.server.holds.wait()
    while not downloads.record.checkpoints:
        await asyncio.sleep(0.005)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert not _is_open(downloads.part)
    assert not downloads.dest.exists()
    had = downloads.record.checkpoints[-1]["bytes"]
    downloads.has_arrived(await downloads.attempt())
    assert downloads.server.starts == [0, had]


async def test_a_download_may_be_cancelled_at_any_moment(downloads: Downloads) -> None:
    for moment in range(25):
        call = asyncio.create_task(downloads.attempt())
        await asyncio.sleep(moment / 2000)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not _is_open(downloads.part)
        assert not downloads.dest.exists() or downloads.dest.read_bytes() == CONTENT

    downloads.has_arrived(await downloads.attempt())


def _is_open(path: Path) -> bool:
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return any(link.startswith(str(path)) for link in links)


async def test_who_lost_the_lease_names_no_file(downloads: Downloads) -> None:
    await downloads.attempt()
    enough = len(downloads.record.checkpoints)
    downloads.dest.unlink()
    downloads.record.checkpoints.clear()
    downloads.record.lost_after = enough - 1  # all but the last

    outcome = await downloads.attempt()

    assert outcome.error is not None
    assert outcome.error.code == LeaseLost.code
    assert not downloads.dest.exists()


async def test_a_file_that_was_replaced_meanwhile_is_not_named(downloads: Downloads) -> None:
    def replace(checkpoint: dict[str, Any]) -> None:
        if "sha256" in checkpoint:
            downloads.part.unlink()
            downloads.part.write_bytes(b"of the next execution")

    downloads.record.seen = replace

    outcome = await downloads.attempt()

    assert outcome.ending is Ending.RETRY
    assert not downloads.dest.exists()
    assert downloads.part.read_bytes() == b"of the next execution"


async def test_a_finished_file_whose_job_was_not_completed_is_not_downloaded_again(downloads: Downloads) -> None:
    await downloads.attempt()

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0]


async def test_a_finished_file_that_was_not_named_is_not_downloaded_again(downloads: Downloads) -> None:
    await downloads.attempt()
    downloads.dest.rename(downloads.part)
    downloads.dest.write_bytes(bytes(len(CONTENT)))

    downloads.has_arrived(await downloads.attempt(sha256=DIGEST))

    assert downloads.server.starts == [0]


@pytest.mark.parametrize("damage", [bytes(len(CONTENT)), CONTENT[:-1], None], ids=["changed", "cut", "removed"])
async def test_a_finished_file_that_was_damaged_is_downloaded_again(downloads: Downloads, damage: bytes | None) -> None:
    await downloads.attempt()
    downloads.dest.unlink()
    if damage is not None:
        downloads.part.write_bytes(damage)

    downloads.has_arrived(await downloads.attempt())

    assert downloads.server.starts == [0, 0]


# --- With a worker -----------------------------------------------------------------------------------------------

LOOK = "SELECT checkpoint, result FROM jobs.job WHERE tenant_id = $1 AND job_id = $2"


async def saved_by(jobs: Jobs, tenant: UUID, job_id: UUID) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job's checkpoint and its result."""
    async with jobs.sessions.tenant(tenant) as conn:
        row = await conn.fetchrow(LOOK, tenant, job_id)
    assert row is not None
    return orjson.loads(row["checkpoint"] or "{}"), orjson.loads(row["result"] or "{}")


async def work(address: dict[str, Any]) -> None:
    """A worker that downloads, as a process of its own."""

    async def connected(*_: object, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        return await connect(**address | named)  # the driver's pool says by position that it knows no address

    sessions = Sessions(connected, role=APP, worker_role=SYSTEM)
    await sessions.open()
    handlers = Handlers()
    download_handler(handlers, open_url, checkpoint_every=0.0)
    await Worker(Jobs(handlers, sessions), Options(name="test")).run()


@asynccontextmanager
async def working_elsewhere(address: Address) -> AsyncIterator[asyncio.subprocess.Process]:
    program = f"import asyncio; from {__name__} import work; asyncio.run(work({address.connect_arguments()!r}))"
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": str(root)}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.external
async def test_a_download_resumes_with_range_after_kill_9(
    downloads: Downloads, jobs: Jobs, handlers: Handlers, tenant: TenantId, address: Address
) -> None:
    download = download_handler(handlers, open_url)
    server = downloads.server
    server.hold_at = 10 * CHUNK
    job_id = await jobs.submit(download, downloads.given(sha256=DIGEST), tenant=tenant)

    async with asyncio.timeout(60), working_elsewhere(address) as first:
        await server.holds.wait()
        while (await saved_by(jobs, tenant, job_id))[0].get("bytes", 0) < 8 * CHUNK:
            await asyncio.sleep(0.01)
        first.kill()
        assert await first.wait() == -9
    had = (await saved_by(jobs, tenant, job_id))[0]["bytes"]
    assert not downloads.dest.exists()

    async with working_elsewhere(address):
        await until_status(jobs, tenant, job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)

    assert downloads.dest.read_bytes() == CONTENT
    assert (await saved_by(jobs, tenant, job_id))[1]["sha256"] == DIGEST
    assert [(request.start, request.if_range) for request in server.requests] == [(0, None), (had, '"v1"')]
    assert server.requests[1].headers["range"] == f"bytes={had}-"
