"""Downloading a file: it arrives whole or not at all, and no byte that is safely here is asked for again."""

import os
from pathlib import Path

import pytest
from service_jobs.job import Ending
from service_jobs.part_file import DownloadCheckpoint
from tests.jobs.download.download_scenario import CHUNK, CONTENT, DIGEST, FUTURE, PAST, DownloadScenario
from tests.jobs.support.file_server import Answer, Request

# --- Arriving ----------------------------------------------------------------------------------------------------


async def test_a_file_arrives(downloads: DownloadScenario) -> None:
    outcome = await downloads.run_attempt(sha256=DIGEST.upper(), max_bytes=len(CONTENT))

    assert downloads.require_arrived(outcome).seconds >= 0
    assert downloads.server.starts == [0]
    assert "range" not in downloads.server.requests[0].headers


async def test_checkpoints_and_progress_say_how_far_it_is(downloads: DownloadScenario) -> None:
    durable: list[int] = []
    downloads.record.on_checkpoint = lambda _: durable.append(downloads.part.stat().st_size)

    await downloads.run_attempt()

    saved = [checkpoint["bytes"] for checkpoint in downloads.record.checkpoints]
    assert saved == sorted(saved)
    assert durable == saved
    assert len(saved) >= 5
    assert saved[-1] == len(CONTENT)
    assert downloads.record.checkpoints[0]["validator"] == '"v1"'
    assert [note["percent"] for note in downloads.record.progress][-1] == 100
    assert downloads.record.progress[-1]["message"] == "1,310,720 of 1,310,720 bytes"


async def test_an_empty_file_arrives_too(downloads: DownloadScenario) -> None:
    downloads.server.content = b""

    arrived = downloads.require_arrived(await downloads.run_attempt(max_bytes=0), b"")

    assert arrived.bytes == 0


async def test_a_file_of_unknown_length_arrives(downloads: DownloadScenario) -> None:
    downloads.server.says_length = False

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.record.progress[0]["percent"] is None


async def test_what_was_at_the_destination_is_replaced_at_the_end_and_not_before(downloads: DownloadScenario) -> None:
    downloads.dest.write_bytes(b"old")
    downloads.part.write_bytes(b"of somebody else, and longer than nothing")

    await downloads.run_interrupted()
    assert downloads.dest.read_bytes() == b"old"

    downloads.require_arrived(await downloads.run_attempt())


async def test_a_link_planted_at_the_part_file_is_not_followed(downloads: DownloadScenario, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    downloads.part.symlink_to(tmp_path / "precious")

    downloads.require_arrived(await downloads.run_attempt())

    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not downloads.dest.is_symlink()


# --- Going on ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True], ids=["closed", "reset"])
async def test_after_a_broken_connection_only_the_rest_is_asked_for(downloads: DownloadScenario, hard: bool) -> None:
    downloads.server.cut_hard = hard
    downloads.server.cut_after = 10 * CHUNK + 5
    first = await downloads.run_attempt()
    had = downloads.record.checkpoints[-1]["bytes"]

    second = await downloads.run_attempt(sha256=DIGEST)

    assert first.ending is Ending.RETRY
    assert first.error is not None
    assert first.error.code == "INTERNAL_ERROR"
    assert had > 0 if hard else had == 10 * CHUNK + 5
    downloads.require_arrived(second)
    assert downloads.server.starts == [0, had]
    assert downloads.server.requests[1].if_range == '"v1"'


async def test_a_body_that_ends_early_says_so(downloads: DownloadScenario) -> None:
    downloads.server.cut_after = 1000

    outcome = await downloads.run_attempt()

    assert outcome.error is not None
    assert outcome.error.message == f"`{downloads.server.url}` ended after 1,000 of 1,310,720 bytes"


async def test_a_part_file_that_is_longer_than_the_checkpoint_is_cut(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    with downloads.part.open("ab") as part:
        part.write(b"never made durable")

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK]


async def test_a_part_file_that_is_shorter_than_the_checkpoint_goes_on_at_its_end(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    os.truncate(downloads.part, 3 * CHUNK)

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 3 * CHUNK]


async def test_a_part_file_that_is_gone_starts_over(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    downloads.part.unlink()

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 0]


async def test_a_checkpoint_of_something_else_is_no_checkpoint(downloads: DownloadScenario) -> None:
    for odd in [7, "x", {}, {"bytes": "7"}, {"bytes": -1, "validator": "v"}, {"bytes": 5, "validator": None}]:
        assert DownloadCheckpoint.from_json(odd) == DownloadCheckpoint()
    downloads.checkpoint = {"page": 3}
    downloads.part.write_bytes(CONTENT[: 3 * CHUNK])

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0]


async def test_a_server_may_send_less_than_was_asked_for_at_a_time(downloads: DownloadScenario) -> None:
    def in_portions(request: Request) -> Answer | None:
        if "range" not in request.headers:
            return None
        end = min(request.start + 4 * CHUNK, len(CONTENT))
        span = {"Content-Range": f"bytes {request.start}-{end - 1}/{len(CONTENT)}", "ETag": '"v1"'}
        return Answer(206, span, CONTENT[request.start : end])

    await downloads.run_interrupted()
    downloads.server.instead = in_portions

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 14 * CHUNK, 18 * CHUNK]


async def test_a_server_may_not_know_the_size_of_the_whole(downloads: DownloadScenario) -> None:
    def of_unknown_size(request: Request) -> Answer | None:
        if not 0 < request.start < len(CONTENT):
            return None
        return Answer(206, {"Content-Range": f"bytes {request.start}-{len(CONTENT) - 1}/*"}, CONTENT[request.start :])

    await downloads.run_interrupted()
    downloads.server.instead = of_unknown_size

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, len(CONTENT)]


async def test_a_date_will_do_if_there_is_no_tag(downloads: DownloadScenario) -> None:
    downloads.server.etag = None
    downloads.server.headers = {"Last-Modified": PAST, "Date": FUTURE}
    await downloads.run_interrupted()

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK]
    assert downloads.server.requests[1].if_range == PAST


# --- Starting over -----------------------------------------------------------------------------------------------


async def test_a_file_that_changed_is_downloaded_anew(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    downloads.server.content = changed = CONTENT[::-1]
    downloads.server.etag = '"v2"'

    downloads.require_arrived(await downloads.run_attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK]  # the answer to the second was the whole


async def test_a_file_that_changed_is_noticed_by_its_tag_if_the_server_does_not_care(
    downloads: DownloadScenario,
) -> None:
    await downloads.run_interrupted()
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

    downloads.require_arrived(await downloads.run_attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_server_without_ranges_sends_the_whole(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted()
    downloads.server.knows_ranges = False

    downloads.require_arrived(await downloads.run_attempt())

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
    downloads: DownloadScenario, etag: str | None, headers: dict[str, str]
) -> None:
    downloads.server.etag = etag
    downloads.server.headers = headers
    downloads.server.cut_after = 10 * CHUNK
    assert (await downloads.run_attempt()).ending is Ending.RETRY

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 0]


@pytest.mark.parametrize(
    "said",
    ["bytes 0-9/1310720", "bytes 655360-5/1310720", "bytes 655360-1310720/1310720", "bytes */7", "lines 1-2/3", ""],
)
async def test_a_part_that_is_not_the_one_asked_for_is_not_used(downloads: DownloadScenario, said: str) -> None:
    await downloads.run_interrupted()
    downloads.server.instead = lambda request: Answer(206, {"Content-Range": said}, b"wrong") if request.start else None

    downloads.require_arrived(await downloads.run_attempt())

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_part_that_nobody_asked_for_is_refused(downloads: DownloadScenario) -> None:
    downloads.server.instead = lambda _: Answer(206, {"Content-Range": "bytes 5-9/10"}, b"wrong")

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "sent another part than the requested one" in outcome.error.message


async def test_all_that_is_there_needs_no_more(downloads: DownloadScenario) -> None:
    await downloads.run_interrupted(after=10 * CHUNK)
    downloads.server.content = short = CONTENT[: 10 * CHUNK]

    downloads.require_arrived(await downloads.run_attempt(), short)

    assert downloads.server.starts == [0, 10 * CHUNK]  # answered with 416


@pytest.mark.parametrize(("length", "etag"), [(9 * CHUNK, '"v1"'), (10 * CHUNK, '"v2"')])
async def test_a_file_that_shrank_or_changed_is_downloaded_anew(
    downloads: DownloadScenario, length: int, etag: str
) -> None:
    await downloads.run_interrupted(after=10 * CHUNK)
    downloads.server.content = changed = CONTENT[::-1][:length]
    downloads.server.instead = lambda request: (
        Answer(416, {"ETag": etag, "Content-Range": f"bytes */{length}"}) if request.start else None
    )

    downloads.require_arrived(await downloads.run_attempt(), changed)

    assert downloads.server.starts == [0, 10 * CHUNK, 0]


async def test_a_server_that_always_changes_its_mind_is_given_up_for_now(downloads: DownloadScenario) -> None:
    def mad(request: Request) -> Answer:
        if request.start:
            return Answer(416)
        return Answer(206, {"Content-Range": "bytes 0-999/*"}, CONTENT[:1000])

    downloads.server.instead = mad

    outcome = await downloads.run_attempt()

    assert outcome.ending is Ending.RETRY
    assert outcome.error is not None
    assert "changes during the download" in outcome.error.message
    assert len(downloads.server.requests) == 6
