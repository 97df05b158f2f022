"""What takes more than one call: lists to their end, jobs until they are over."""

from typing import Any
from uuid import UUID

import httpx2
import pytest

from bpc.client import ApiError, Client, JobFailed, Patience, StillWaiting, client

JOB = UUID("01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2")
NOW = "2027-02-18T00:00:00.000000Z"


def document(number: int) -> dict[str, Any]:
    return {"document_id": str(UUID(int=number)), "kind": "BOM", "external_ref": None, "created_at": NOW}


def job(status: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "job_id": str(JOB),
        "type": "PARSE_FACTS",
        "status": status,
        "attempts": 1,
        "max_attempts": 5,
        "progress": None,
        "last_error": error,
        "created_at": NOW,
        "scheduled_at": NOW,
        "started_at": None,
        "finished_at": None,
        "priority": 2,
        "cancel_requested": False,
        "batch_id": None,
        "correlation_id": None,
    }


@pytest.fixture(autouse=True)
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits; how long it would have waited is here."""
    waited: list[float] = []

    async def rest(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("bpc.client.client.asyncio.sleep", rest)
    return waited


def bpc(*answers: httpx2.Response) -> tuple[Client, list[httpx2.Request]]:
    """A client that gets these answers, and what it asked."""
    left, asked = list(answers), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return left.pop(0)

    return Client("http://bpc.test", None, patience=Patience(attempts=1), transport=httpx2.MockTransport(answer)), asked


def ok(body: Any) -> httpx2.Response:
    return httpx2.Response(200, json=body)


def missing() -> httpx2.Response:
    error = {"code": "NOT_FOUND", "message": "no", "correlation_id": "c", "details": {}}
    return httpx2.Response(404, json={"error": error})


async def test_a_list_is_read_page_after_page_to_its_end() -> None:
    asking, asked = bpc(
        ok({"items": [document(1), document(2)], "next_cursor": "more"}),
        ok({"items": [document(3)], "next_cursor": None}),
    )

    async with asking:
        found = [each.document_id.int async for each in asking.list_all(asking.list_documents)]

    assert found == [1, 2, 3]
    assert [dict(request.url.params) for request in asked] == [{"limit": "200"}, {"limit": "200", "cursor": "more"}]


async def test_a_list_takes_the_arguments_of_its_operation() -> None:
    asking, asked = bpc(ok({"items": [], "next_cursor": None}))

    async with asking:
        assert [each async for each in asking.list_all(asking.list_document_versions, JOB, limit=3)] == []

    assert str(asked[0].url) == f"http://bpc.test/v1/documents/{JOB}/versions?limit=3"


async def test_a_job_is_waited_for_in_longer_and_longer_rests(rests: list[float]) -> None:
    asking, _ = bpc(ok(job("QUEUED")), *(ok(job("RUNNING")) for _ in range(15)), ok(job("SUCCEEDED")))

    async with asking:
        assert (await asking.wait(JOB)).status == "SUCCEEDED"

    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (client.FIRST_LOOK, client.LONGEST_LOOK)


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED", "DEAD_LETTER"])
async def test_a_job_that_is_over_without_success_raises_why(status: str) -> None:
    error = {"code": "VALIDATION_ERROR", "message": "not a bill of materials", "retryable": False, "details": {}}
    asking, _ = bpc(ok(job("QUEUED")), ok(job(status, error)))

    async with asking:
        with pytest.raises(JobFailed, match=f"is {status}: VALIDATION_ERROR: not a bill of materials") as raised:
            await asking.wait(JOB)

    assert raised.value.error == error


async def test_a_job_that_does_not_exist_is_not_waited_for() -> None:
    asking, asked = bpc(missing())

    async with asking:
        with pytest.raises(ApiError, match="NOT_FOUND"):
            await asking.wait(JOB)

    assert len(asked) == 1


async def test_waiting_ends() -> None:
    asking, _ = bpc(ok(job("QUEUED")), ok(job("QUEUED")))

    async with asking:
        with pytest.raises(StillWaiting, match=rf"job {JOB} is not over after 0\.01 s"):
            await asking.wait(JOB, seconds=0.01)


async def test_what_is_not_there_yet_is_waited_for() -> None:
    asking, asked = bpc(missing(), missing(), ok(document(1)))

    async with asking:
        found = await asking.until(lambda: asking.get_document(JOB))

    assert found.document_id.int == 1
    assert len(asked) == 3


async def test_any_path_can_be_asked_for() -> None:
    asking, asked = bpc(httpx2.Response(200, content=b"as it is"))

    async with asking:
        assert await asking.get("/v1/documents?limit=3") == b"as it is"

    assert str(asked[0].url) == "http://bpc.test/v1/documents?limit=3"


@pytest.mark.parametrize("path", ["http://elsewhere.test/v1", "//elsewhere.test/v1", "v1/documents", "/v1/\0"])
async def test_a_path_cannot_take_the_key_elsewhere(path: str) -> None:
    asking, asked = bpc()

    async with asking:
        with pytest.raises(ValueError, match="is no path"):
            await asking.get(path)

    assert asked == []
