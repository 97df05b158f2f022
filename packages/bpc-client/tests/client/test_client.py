"""The helpers that make more than one call: whole lists, and waiting."""

from typing import Any
from uuid import UUID

import httpx2
import pytest
from bpc_client import ApiError, Client, JobFailed, RetryPolicy, WaitTimeout, client

JOB = UUID("01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2")
NOW = "2027-02-18T00:00:00.000000Z"


def make_document(number: int) -> dict[str, Any]:
    return {"document_id": str(UUID(int=number)), "kind": "BOM", "external_ref": None, "created_at": NOW}


def make_job(status: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "job_id": str(JOB),
        "type": "PARSE_FACTS",
        "status": status,
        "subject": None,
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
        "service_id": None,
        "lease_owner": None,
        "lease_expires_at": None,
    }


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace sleeping; the pauses that would have been made are here."""
    recorded: list[float] = []

    async def record_pause(seconds: float) -> None:
        recorded.append(seconds)

    monkeypatch.setattr("bpc_client.client.asyncio.sleep", record_pause)
    return recorded


def open_client(*answers: httpx2.Response) -> tuple[Client, list[httpx2.Request]]:
    """A client that gets these answers, and the requests it sends."""
    left, requests = list(answers), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return left.pop(0)

    return Client(
        "http://bpc.test", None, retry=RetryPolicy(attempts=1), transport=httpx2.MockTransport(answer)
    ), requests


def make_answer(body: Any) -> httpx2.Response:
    return httpx2.Response(200, json=body)


def make_not_found() -> httpx2.Response:
    error = {"code": "NOT_FOUND", "message": "no", "correlation_id": "c", "details": {}}
    return httpx2.Response(404, json={"error": error})


async def test_list_all_reads_every_page() -> None:
    bpc, requests = open_client(
        make_answer({"items": [make_document(1), make_document(2)], "next_cursor": "more"}),
        make_answer({"items": [make_document(3)], "next_cursor": None}),
    )

    async with bpc:
        document_numbers = [each.document_id.int async for each in bpc.list_all(bpc.list_documents)]

    assert document_numbers == [1, 2, 3]
    assert [dict(request.url.params) for request in requests] == [{"limit": "200"}, {"limit": "200", "cursor": "more"}]


async def test_list_all_passes_the_arguments_of_the_operation() -> None:
    bpc, requests = open_client(make_answer({"items": [], "next_cursor": None}))

    async with bpc:
        assert [each async for each in bpc.list_all(bpc.list_document_versions, JOB, limit=3)] == []

    assert str(requests[0].url) == f"http://bpc.test/v1/documents/{JOB}/versions?limit=3"


async def test_wait_lets_the_api_wait_but_not_longer_than_there_is_time() -> None:
    bpc, requests = open_client(make_answer(make_job("SUCCEEDED")), make_answer(make_job("SUCCEEDED")))

    async with bpc:
        await bpc.wait(JOB)
        await bpc.wait(JOB, seconds=3.5)

    assert [request.url.params["wait_seconds"] for request in requests] == ["20", "3"]


async def test_wait_polls_a_job_with_growing_pauses(pauses: list[float]) -> None:
    bpc, _ = open_client(
        make_answer(make_job("QUEUED")),
        *(make_answer(make_job("RUNNING")) for _ in range(15)),
        make_answer(make_job("SUCCEEDED")),
    )

    async with bpc:
        assert (await bpc.wait(JOB)).status == "SUCCEEDED"

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (client.FIRST_PAUSE, client.LONGEST_PAUSE)


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED", "DEAD_LETTER"])
async def test_waiting_for_a_job_that_fails_raises_its_error(status: str) -> None:
    error = {"code": "VALIDATION_ERROR", "message": "not a bill of materials", "retryable": False, "details": {}}
    error |= {"next_step": "send one"}
    bpc, _ = open_client(make_answer(make_job("QUEUED")), make_answer(make_job(status, error)))

    async with bpc:
        with pytest.raises(JobFailed, match=f"is {status}: VALIDATION_ERROR: not a bill of materials") as raised:
            await bpc.wait(JOB)

    assert raised.value.error == error


async def test_waiting_for_an_unknown_job_fails_at_once() -> None:
    bpc, requests = open_client(make_not_found())

    async with bpc:
        with pytest.raises(ApiError, match="NOT_FOUND"):
            await bpc.wait(JOB)

    assert len(requests) == 1


async def test_waiting_has_a_time_limit() -> None:
    bpc, _ = open_client(make_answer(make_job("QUEUED")), make_answer(make_job("QUEUED")))

    async with bpc:
        with pytest.raises(WaitTimeout, match=rf"job {JOB}: not done after 0\.01 s"):
            await bpc.wait(JOB, seconds=0.01)


async def test_wait_until_goes_on_after_not_found() -> None:
    bpc, requests = open_client(make_not_found(), make_not_found(), make_answer(make_document(1)))

    async with bpc:
        new_document = await bpc.wait_until(lambda: bpc.get_document(JOB))

    assert new_document.document_id.int == 1
    assert len(requests) == 3


async def test_get_reads_any_path() -> None:
    bpc, requests = open_client(httpx2.Response(200, content=b"as it is"))

    async with bpc:
        assert await bpc.get("/v1/documents?limit=3") == b"as it is"

    assert str(requests[0].url) == "http://bpc.test/v1/documents?limit=3"


@pytest.mark.parametrize("path", ["http://elsewhere.test/v1", "//elsewhere.test/v1", "v1/documents", "/v1/\0"])
async def test_a_path_cannot_send_the_key_to_another_host(path: str) -> None:
    bpc, requests = open_client()

    async with bpc:
        with pytest.raises(ValueError, match="is not a path"):
            await bpc.get(path)

    assert requests == []
