"""The synchronous client: the same operations and helpers, from threads and beside a running event loop."""

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import httpx2
import pytest
from bpc_client import ApiError, Client, RetryPolicy, StoredBytes, SyncClient, Unreachable, WaitTimeout
from bpc_client.operations import Operations
from bpc_client.sync_operations import SyncOperations
from tests.client.test_client import JOB, make_answer, make_document, make_job, make_not_found


def open_client(*answers: httpx2.Response | Exception) -> tuple[SyncClient, list[httpx2.Request]]:
    """A client that gets these answers, and the requests it sends."""
    left, requests = list(answers), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        next_answer = left.pop(0)
        if isinstance(next_answer, Exception):
            raise next_answer
        return next_answer

    retry = RetryPolicy(attempts=2, first_pause=0.0)
    return SyncClient("http://bpc.test", "bpc_p_s", retry=retry, transport=httpx2.MockTransport(answer)), requests


def list_operations(operations: type) -> dict[str, str]:
    """The signatures of the public methods."""
    return {
        name: str(inspect.signature(method))
        for name, method in vars(operations).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def test_both_clients_have_the_same_operations_with_the_same_arguments() -> None:
    assert list_operations(SyncOperations) == list_operations(Operations)
    assert len(list_operations(SyncOperations)) > 50


def test_both_clients_have_the_same_helpers() -> None:
    assert list_operations(SyncClient).keys() == list_operations(Client).keys()


def test_a_call_is_retried_and_returns_a_model() -> None:
    bpc, requests = open_client(httpx2.ConnectError("refused"), make_answer(make_document(7)))

    with bpc:
        document = bpc.get_document(UUID(int=7))

    assert document.document_id.int == 7
    assert len(requests) == 2


def test_known_bytes_are_not_sent_again() -> None:
    bpc, _ = open_client(httpx2.Response(200, content=b"bytes", headers={"ETag": '"e"'}), httpx2.Response(304))

    with bpc:
        first = bpc.get_document_content(JOB)
        assert bpc.get_document_content(JOB, known=first) is first

    assert first == StoredBytes(b"bytes", '"e"', "")


def test_list_all_reads_every_page() -> None:
    bpc, requests = open_client(
        make_answer({"items": [make_document(1), make_document(2)], "next_cursor": "more"}),
        make_answer({"items": [make_document(3)], "next_cursor": None}),
    )

    with bpc:
        numbers = [document.document_id.int for document in bpc.list_all(bpc.list_documents)]

    assert numbers == [1, 2, 3]
    assert [dict(request.url.params) for request in requests] == [{"limit": "200"}, {"limit": "200", "cursor": "more"}]


def test_wait_returns_the_job_that_succeeded() -> None:
    bpc, _ = open_client(make_answer(make_job("RUNNING")), make_answer(make_job("SUCCEEDED")))

    with bpc:
        assert bpc.wait(JOB).status == "SUCCEEDED"


def test_waiting_has_a_time_limit() -> None:
    bpc, _ = open_client(make_answer(make_job("QUEUED")))

    with bpc, pytest.raises(WaitTimeout):
        bpc.wait(JOB, seconds=0.01)


def test_wait_until_calls_a_synchronous_function_until_it_is_done() -> None:
    bpc, requests = open_client(make_not_found(), make_answer(make_document(1)))

    with bpc:
        document = bpc.wait_until(lambda: bpc.get_document(JOB))

    assert document.document_id.int == 1
    assert len(requests) == 2


def test_errors_are_those_of_the_asynchronous_client() -> None:
    bpc, _ = open_client(make_not_found(), httpx2.ConnectError("refused"), httpx2.ConnectError("refused"))

    with bpc:
        with pytest.raises(ApiError, match="NOT_FOUND"):
            bpc.get_document(JOB)
        with pytest.raises(Unreachable, match="refused"):
            bpc.get("/v1/documents")


async def test_it_works_while_an_event_loop_runs() -> None:
    bpc, _ = open_client(make_answer(make_document(1)))

    with bpc:
        assert bpc.get_document(JOB).document_id.int == 1


def test_several_threads_may_use_one_client() -> None:
    bpc, requests = open_client(*(make_answer(make_document(number)) for number in range(20)))

    with bpc, ThreadPoolExecutor(4) as pool:
        numbers = set(pool.map(lambda _: bpc.get_document(JOB).document_id.int, range(20)))

    assert numbers == set(range(20))
    assert len(requests) == 20


def test_a_closed_client_has_no_thread_and_refuses_calls() -> None:
    bpc, _ = open_client()

    bpc.close()
    bpc.close()

    assert "bpc-client" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError, match="this client is closed"):
        bpc.get_document(JOB)


def test_the_prefix_of_the_key_is_readable() -> None:
    bpc, _ = open_client()

    with bpc:
        assert bpc.key_prefix == "bpc_p"
