"""The guard: it connects to what it has checked, says what went wrong, and reads no more than it should."""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence

import httpx2
import pytest
from service_jobs.download import OpenUrl

from bpc.core.outbound_urls import OutboundBlocked
from bpc.outbound import Guard, OutboundFailed, OutboundTimedOut, guard, resolve_host
from tests.measurements import allow_seconds
from tests.outbound.open_guard import make_open_guard, resolve_to
from tests.outbound.receiver import Receiver, Reply

# What is sent, and what comes back ---------------------------------------------------------------------------------


async def test_a_request_arrives_as_it_was_given(receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(status=200, headers={"X-Seen": "yes"}, body=b"thanks")

    answer = await make_open_guard().send(
        "POST", f"{receiver.url}/a%20b?q='1'&r", headers={"Content-Type": "text/plain"}, content=b"hello"
    )

    assert (answer.status, answer.headers["x-seen"], answer.body, answer.is_truncated) == (200, "yes", b"thanks", False)
    (got,) = receiver.received
    assert (got.method, got.target, got.body) == ("POST", "/hook/a%20b?q='1'&r", b"hello")
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers["accept-encoding"] == "identity"
    assert got.headers["content-type"] == "text/plain"
    assert got.headers["user-agent"].startswith("bpc/")


async def test_the_host_is_the_name_and_the_connection_goes_to_the_address(receiver: Receiver) -> None:
    guard = make_open_guard(resolve=resolve_to("127.0.0.1"))

    await guard.send("POST", f"http://hooks.example:{receiver.port}?x=1")

    assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"
    assert receiver.received[0].target == "/?x=1"


async def test_proxies_of_the_environment_are_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")

        await make_open_guard().send("POST", receiver.url)

    assert (len(receiver.received), proxy.connections) == (1, 0)


async def test_a_redirect_is_an_answer_and_is_not_followed(receiver: Receiver) -> None:
    async with Receiver() as canary:
        receiver.reply = lambda _: Reply(status=307, headers={"Location": canary.url})

        answer = await make_open_guard().send("POST", receiver.url)

        assert (answer.status, canary.connections) == (307, 0)


async def test_the_next_address_is_tried_if_the_first_does_not_connect(receiver: Receiver) -> None:
    guard = make_open_guard(resolve=resolve_to("127.0.0.2", "127.0.0.1"))

    answer = await guard.send("POST", f"http://hooks.example:{receiver.port}/")

    assert (answer.status, receiver.connections) == (204, 1)


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(headers={"Set-Cookie": "a=b; Path=/"})
    guard = make_open_guard()

    await guard.send("POST", receiver.url)
    await guard.send("POST", receiver.url)

    assert "cookie" not in receiver.received[1].headers


# What is not read --------------------------------------------------------------------------------------------------


async def test_no_more_of_an_answer_is_read_than_asked_for(receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(status=200, body=b"x" * 20_000_000)

    answer = await make_open_guard().send("POST", receiver.url, max_bytes=1000)

    assert (answer.body, answer.is_truncated) == (b"x" * 1000, True)


async def test_an_answer_that_never_ends_is_cut_too(receiver: Receiver) -> None:
    endless = b"HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"y" * 0x4000 + b"\r\n"
    receiver.reply = lambda _: Reply(raw=endless, then_wait=True)

    answer = await make_open_guard().send("POST", receiver.url, max_bytes=1000)

    assert (answer.body, answer.is_truncated) == (b"y" * 1000, True)


async def test_nothing_is_unpacked(receiver: Receiver) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    receiver.reply = lambda _: Reply(status=200, headers={"Content-Encoding": "gzip"}, body=bomb)

    answer = await make_open_guard().send("POST", receiver.url)

    assert answer.body == bomb


async def test_a_head_that_does_not_end_is_given_up(receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 200 -\r\n" + b"X-More: yes\r\n" * 20_000, then_wait=True)

    with pytest.raises(OutboundFailed, match="did not answer in HTTP"):
        await make_open_guard().send("POST", receiver.url)


# What goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 -\r\nContent-Length: 5\r\n", b"HTTP/1.1 103 -\r\n\r\n" * 50],
    ids=["nothing", "half a line", "half a head", "hints only"],
)
async def test_a_silent_or_slow_server_times_out(receiver: Receiver, raw: bytes) -> None:
    receiver.reply = lambda _: Reply(raw=raw, then_wait=True)

    with pytest.raises(OutboundTimedOut) as late:
        await make_open_guard().send("POST", receiver.url, timeout=0.2)

    assert late.value.says == f"`127.0.0.1:{receiver.port}` did not answer within 0.2 s"
    assert (late.value.code, late.value.retryable) == ("REQUEST_TIMEOUT", True)


def make_dripping_server(head: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Says `head`, then a byte now and then, for ever."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    return drip


async def test_a_server_that_sends_a_byte_now_and_then_does_not_get_more_time(receiver: Receiver) -> None:
    receiver.talk = make_dripping_server(b"HTTP/1.1 200 -\r\nX-Slow: ")

    with pytest.raises(OutboundTimedOut):
        await make_open_guard().send("POST", receiver.url, timeout=0.3)


async def test_a_status_that_came_in_time_counts_however_slow_its_body_is(receiver: Receiver) -> None:
    receiver.talk = make_dripping_server(b"HTTP/1.1 200 -\r\nContent-Length: 1000\r\n\r\n")
    began = time.perf_counter()

    answer = await make_open_guard().send("POST", receiver.url, timeout=0.3)

    assert time.perf_counter() - began < allow_seconds(3)
    assert (answer.status, answer.is_truncated) == (200, True)
    assert 0 < len(answer.body) < 1000
    assert set(answer.body) == {ord(".")}


async def _close_never(_: httpx2.Response) -> None:
    await asyncio.Event().wait()


async def _close_broken(_: httpx2.Response) -> None:
    raise httpx2.CloseError("the connection was reset")


@pytest.mark.parametrize("closing", [_close_never, _close_broken])
async def test_an_answer_counts_even_if_the_server_does_not_close(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, closing: Callable[[httpx2.Response], Awaitable[None]]
) -> None:
    receiver.reply = lambda _: Reply(status=200, body=b"x" * 1000)
    monkeypatch.setattr(httpx2.Response, "aclose", closing)
    monkeypatch.setattr(guard, "CLOSE_TIMEOUT", 0.05)

    async with asyncio.timeout(5):
        answer = await make_open_guard().send("POST", receiver.url, max_bytes=10)

    assert (answer.status, answer.body) == (200, b"x" * 10)


async def test_a_name_server_that_does_not_answer_takes_no_more_time_either() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(OutboundTimedOut, match=r"`hooks\.example` did not answer within 0\.1 s"):
        await make_open_guard(resolve=never).send("POST", "https://hooks.example/", timeout=0.1)


async def test_network_errors_are_sentences_without_addresses(receiver: Receiver) -> None:
    async with Receiver() as gone:
        pass
    guard = make_open_guard(resolve=resolve_to("127.0.0.1"))

    with pytest.raises(OutboundFailed) as refused:
        await guard.send("POST", f"http://hooks.example:{gone.port}/")
    receiver.reply = lambda _: Reply(raw=b"220 mail.example ESMTP\r\n")
    with pytest.raises(OutboundFailed) as strange:
        await guard.send("POST", f"http://hooks.example:{receiver.port}/")

    assert refused.value.says == f"`hooks.example:{gone.port}` could not be reached"
    assert strange.value.says == (
        f"`hooks.example:{receiver.port}` did not answer in HTTP, or stopped in the middle of its answer"
    )
    for error in (refused.value, strange.value):
        assert (error.code, error.retryable) == ("OUTBOUND_FAILED", True)
        assert error.fix is not None
        assert "127.0.0.1" not in f"{error.says} {error.fix} {error.details} {error!r} {error.__cause__}"


async def test_a_body_that_ends_early_is_returned_truncated(receiver: Receiver) -> None:
    receiver.reply = lambda _: Reply(raw=b"HTTP/1.1 200 -\r\nContent-Length: 5\r\n\r\nab")

    answer = await make_open_guard().send("POST", receiver.url)

    assert (answer.status, answer.body, answer.is_truncated) == (200, b"ab", True)


async def test_a_blocked_address_gives_the_same_message_whatever_listens_there(receiver: Receiver) -> None:
    closed = Guard(https_only=False)
    refusals = set()
    for url in (receiver.url, "http://127.0.0.1:1/", "http://10.255.255.1/", "http://localhost/"):
        with pytest.raises(OutboundBlocked) as blocked:
            await closed.send("POST", url)
        refusals.add((blocked.value.code, blocked.value.says, blocked.value.fix, blocked.value.retryable))

    assert refusals == {
        (
            "OUTBOUND_BLOCKED",
            "the address is private, local or reserved, so nothing is sent to it",
            "use a public address",
            False,
        )
    }
    assert receiver.connections == 0


async def test_an_internal_name_and_a_name_that_does_not_exist_are_refused_alike() -> None:
    refusals = []
    for addresses in ([], ["10.0.0.7"], ["127.0.0.1", "93.184.216.34"]):
        with pytest.raises(OutboundBlocked) as blocked:
            await Guard(https_only=False, resolve=resolve_to(*addresses)).send("POST", "http://vault.corp.example/")
        refusals.append((blocked.value.code, blocked.value.says, blocked.value.fix, blocked.value.details))

    assert refusals[0] == refusals[1] == refusals[2]


async def test_names_are_resolved_as_this_machine_does() -> None:
    assert "127.0.0.1" in await resolve_host("localhost", 80)
    assert await resolve_host("does-not-exist.invalid", 80) == []


# Files -------------------------------------------------------------------------------------------------------------


async def test_a_file_is_opened_at_any_place_on_condition_that_it_is_the_same(receiver: Receiver) -> None:
    content = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(256)) * 20
    receiver.reply = lambda _: Reply(status=206, headers={"ETag": '"v1"'}, body=content)
    open_url: OpenUrl = make_open_guard().open_url

    async with open_url(receiver.url, start=7, validator='"v1"') as response:
        pieces = [piece async for piece in response.chunks(10_000)]
    async with open_url(receiver.url, start=0, validator=None) as full_response:
        assert full_response.headers["etag"] == '"v1"'

    assert (response.status, b"".join(pieces)) == (206, content)
    assert {len(piece) for piece in pieces[:-1]} == {10_000}
    second, first = (request.headers for request in receiver.received)
    assert (second["range"], second["if-range"], second["accept-encoding"]) == ("bytes=7-", '"v1"', "identity")
    assert not {"range", "if-range"} & set(first)


async def test_a_file_whose_sender_stops_is_an_outbound_error(receiver: Receiver) -> None:
    cut = b"HTTP/1.1 200 -\r\nContent-Length: 5\r\n\r\nab"
    for then_wait, error in ((False, OutboundFailed), (True, OutboundTimedOut)):
        receiver.reply = lambda _, wait=then_wait: Reply(raw=cut, then_wait=wait)  # type: ignore[misc]
        with pytest.raises(error):
            async with make_open_guard(max_seconds=0.3).open_url(receiver.url, start=0, validator=None) as response:
                assert [piece async for piece in response.chunks(1)] == []


async def test_a_file_may_take_longer_than_a_message_as_long_as_it_comes(receiver: Receiver) -> None:
    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 -\r\nContent-Length: 6\r\n\r\n")
        for _ in range(6):
            writer.write(b".")
            await asyncio.sleep(0.1)

    receiver.talk = slowly
    async with make_open_guard(max_seconds=0.4).open_url(receiver.url, start=0, validator=None) as response:
        assert b"".join([piece async for piece in response.chunks(10)]) == b"......"


async def test_a_closed_address_is_not_opened_either(receiver: Receiver) -> None:
    with pytest.raises(OutboundBlocked):
        async with Guard(https_only=False).open_url(receiver.url, start=0, validator=None):
            pass

    assert receiver.connections == 0


# The list of what is allowed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "host", "reached"),
    [
        ("127.0.0.1", "hooks.example", True),
        ("127.0.0.0/8", "hooks.example", True),
        ("127.0.0.1:{port}", "hooks.example", True),
        ("127.0.0.1:1", "hooks.example", False),
        ("hooks.example", "hooks.example", True),
        ("HOOKS.example", "hooks.EXAMPLE", True),
        ("hooks.example:{port}", "hooks.example", True),
        ("hooks.example:1", "hooks.example", False),
        ("*.example", "hooks.example", True),
        ("*.example:{port}", "hooks.example", True),
        ("*.example", "example", False),
        ("*.example", "hooksexample", False),
        ("hooks.example", "hooks.example.org", False),
        ("10.0.0.0/8", "hooks.example", False),
        ("/var/incoming", "hooks.example", False),
        ("::1", "hooks.example", False),
    ],
)
async def test_what_the_installation_names_may_be_reached(
    receiver: Receiver, entry: str, host: str, reached: bool
) -> None:
    guard = make_open_guard(allow=(entry.format(port=receiver.port),), resolve=resolve_to("127.0.0.1"))

    if reached:
        assert (await guard.send("POST", f"http://{host}:{receiver.port}/")).status == 204
    else:
        with pytest.raises(OutboundBlocked):
            await guard.send("POST", f"http://{host}:{receiver.port}/")
        assert receiver.connections == 0
