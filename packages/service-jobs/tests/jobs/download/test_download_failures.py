"""Downloads that are refused or interrupted: what is tried again, and what is left behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from service_jobs.download import DownloadFile
from service_jobs.job import Ending, InvalidInput, LeaseLost
from tests.jobs.download.download_scenario import CHUNK, CONTENT, DIGEST, DownloadScenario
from tests.jobs.support.file_server import Answer, ClientResponse

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
    downloads: DownloadScenario, status: int, ending: Ending, code: str
) -> None:
    downloads.server.instead = lambda _: Answer(status)

    outcome = await downloads.run_attempt()

    assert outcome.ending is ending
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details) == (code, {"status": status})
    assert not downloads.dest.exists()


async def test_an_error_in_between_costs_nothing_that_is_here(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    downloads.server.instead = lambda _: Answer(503)
    assert (await downloads.run_attempt()).ending is Ending.RETRY
    downloads.server.instead = lambda _: None

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 10 * CHUNK]


@pytest.mark.parametrize("says_length", [True, False])
async def test_a_file_that_is_too_large_is_refused_and_removed(downloads: DownloadScenario, says_length: bool) -> None:
    downloads.server.says_length = says_length

    outcome = await downloads.run_attempt(max_bytes=5 * CHUNK)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "VALIDATION_ERROR"
    assert outcome.error.message == f"`{downloads.server.url}` is larger than the 327,680 bytes allowed"
    assert not downloads.part.exists()
    assert not downloads.dest.exists()


async def test_another_file_than_the_one_wanted_is_refused_and_removed(downloads: DownloadScenario) -> None:
    outcome = await downloads.run_attempt(sha256="0" * 64)

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "VALIDATION_ERROR"
    assert outcome.error.details["sha256"] == DIGEST
    assert not downloads.part.exists()
    assert not downloads.dest.exists()


async def test_a_compressed_body_is_refused(downloads: DownloadScenario) -> None:
    downloads.server.headers = {"Content-Encoding": "gzip"}

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert "uses content encoding `gzip`" in outcome.error.message


async def test_more_than_was_announced_is_refused(downloads: DownloadScenario) -> None:
    downloads.server.headers = {"Content-Length": "1000"}

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "more than the 1,000 bytes" in outcome.error.message


async def test_secrets_in_an_address_are_not_shown(downloads: DownloadScenario) -> None:
    downloads.server.instead = lambda _: Answer(403)
    secret = downloads.server.url.replace("//", "//me:hush@") + "?token=hush"

    outcome = await downloads.run_attempt(url=secret)

    assert outcome.error is not None
    assert "hush" not in outcome.error.to_json()


async def test_what_the_caller_does_not_open_is_refused_as_the_caller_says(downloads: DownloadScenario) -> None:
    class Blocked(InvalidInput):
        code = "OUTBOUND_BLOCKED"

    @asynccontextmanager
    async def guarded(url: str, *, start: int, validator: str | None) -> AsyncIterator[ClientResponse]:
        raise Blocked(f"`{url}` is not to be reached")
        yield

    downloads.opening = guarded

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.FAILED
    assert outcome.error is not None
    assert outcome.error.code == "OUTBOUND_BLOCKED"


async def test_a_server_that_is_not_there_is_tried_again(downloads: DownloadScenario) -> None:
    outcome = await downloads.run_attempt(url="http://127.0.0.1:1/")

    assert outcome.ending is Ending.RETRY


async def test_a_folder_that_is_not_there_is_tried_again(downloads: DownloadScenario, tmp_path: Path) -> None:
    outcome = await downloads.run_attempt(dest=str(tmp_path / "not mounted" / "file"))

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


async def test_a_server_that_falls_silent_is_given_up_and_what_came_is_kept(downloads: DownloadScenario) -> None:
    downloads.server.hold_at = 10 * CHUNK
    downloads.stalled_after = 0.2

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert outcome.error.message == f"TimeoutError: `{downloads.server.url}` sent nothing for 0.2 s"
    assert downloads.record.checkpoints[-1]["bytes"] == 10 * CHUNK
    downloads.require_arrived(await downloads.run_attempt())
    assert downloads.server.starts == [0, 10 * CHUNK]


async def test_a_cancelled_download_leaves_no_open_file_and_can_go_on(downloads: DownloadScenario) -> None:
    downloads.server.hold_at = 10 * CHUNK + 5
    call = asyncio.create_task(downloads.run_attempt())
    await downloads.server.holds.wait()
    while not downloads.record.checkpoints:
        await asyncio.sleep(0.005)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert not _is_open(downloads.part)
    assert not downloads.dest.exists()
    had = downloads.record.checkpoints[-1]["bytes"]
    downloads.require_arrived(await downloads.run_attempt())
    assert downloads.server.starts == [0, had]


async def test_a_download_may_be_cancelled_at_any_moment(downloads: DownloadScenario) -> None:
    for moment in range(25):
        call = asyncio.create_task(downloads.run_attempt())
        await asyncio.sleep(moment / 2000)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert not _is_open(downloads.part)
        assert not downloads.dest.exists() or downloads.dest.read_bytes() == CONTENT

    downloads.require_arrived(await downloads.run_attempt())


def _is_open(path: Path) -> bool:
    links = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return any(link.startswith(str(path)) for link in links)


async def test_who_lost_the_lease_names_no_file(downloads: DownloadScenario) -> None:
    await downloads.run_attempt()
    enough = len(downloads.record.checkpoints)
    downloads.dest.unlink()
    downloads.record.checkpoints.clear()
    downloads.record.lost_after = enough - 1  # all but the last

    outcome = await downloads.run_attempt()

    assert outcome.error is not None
    assert outcome.error.code == LeaseLost.code
    assert not downloads.dest.exists()


async def test_a_file_that_was_replaced_meanwhile_is_not_named(downloads: DownloadScenario) -> None:
    def replace(checkpoint: dict[str, Any]) -> None:
        if "sha256" in checkpoint:
            downloads.part.unlink()
            downloads.part.write_bytes(b"of the next execution")

    downloads.record.on_checkpoint = replace

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.RETRY
    assert not downloads.dest.exists()
    assert downloads.part.read_bytes() == b"of the next execution"


async def test_a_finished_file_whose_job_was_not_completed_is_not_downloaded_again(downloads: DownloadScenario) -> None:
    await downloads.run_attempt()

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0]


async def test_a_finished_file_that_was_not_named_is_not_downloaded_again(downloads: DownloadScenario) -> None:
    await downloads.run_attempt()
    downloads.dest.rename(downloads.part)
    downloads.dest.write_bytes(bytes(len(CONTENT)))

    downloads.require_arrived(await downloads.run_attempt(sha256=DIGEST))

    assert downloads.server.starts == [0]


@pytest.mark.parametrize("damage", [bytes(len(CONTENT)), CONTENT[:-1], None], ids=["changed", "cut", "removed"])
async def test_a_finished_file_that_was_damaged_is_downloaded_again(
    downloads: DownloadScenario, damage: bytes | None
) -> None:
    await downloads.run_attempt()
    downloads.dest.unlink()
    if damage is not None:
        downloads.part.write_bytes(damage)

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 0]
