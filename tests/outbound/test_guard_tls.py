"""The guard over TLS: only a certificate of the name, by an authority that we trust, is accepted."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bpc.outbound import OutboundFailed, OutboundTimedOut
from tests.outbound.certificates import Authority
from tests.outbound.open_guard import make_open_guard, resolve_to
from tests.outbound.receiver import Receiver


async def test_the_certificate_must_be_of_the_name_not_of_the_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    guard = make_open_guard(https_only=True, resolve=resolve_to("127.0.0.1"), trust=authority.client_context)

    async with Receiver(tls=authority.make_server_context("hooks.example")) as right:
        answer = await guard.send("POST", f"https://hooks.example:{right.port}/")
    async with Receiver(tls=authority.make_server_context("127.0.0.1")) as wrong:
        with pytest.raises(OutboundFailed, match=r"certificate of `hooks\.example:.*` was not accepted") as refused:
            await guard.send("POST", f"https://hooks.example:{wrong.port}/")

    assert answer.status == 204
    assert wrong.received == []
    assert refused.value.retryable


async def test_a_certificate_by_nobody_we_trust_or_out_of_date_is_not_accepted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    old = authority.make_server_context("hooks.example", until=datetime(2021, 1, 1, tzinfo=UTC))

    async with Receiver(tls=old) as receiver:
        for trust, why in ((None, "unable to get local issuer"), (authority.client_context, "has expired")):
            guard = make_open_guard(resolve=resolve_to("127.0.0.1"), trust=trust)
            with pytest.raises(OutboundFailed, match=why):
                await guard.send("POST", f"https://hooks.example:{receiver.port}/")

    assert receiver.received == []


async def test_a_server_without_tls_says_so(receiver: Receiver) -> None:
    async def plain(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 -\r\n\r\n")

    receiver.talk = plain
    with pytest.raises(OutboundFailed, match="no TLS connection to"):
        await make_open_guard().send("POST", receiver.url.replace("http:", "https:"))


async def test_a_server_that_never_shows_a_certificate_is_given_up(receiver: Receiver) -> None:
    with pytest.raises(OutboundTimedOut):
        await make_open_guard().send("POST", receiver.url.replace("http:", "https:"), timeout=0.3)

    assert receiver.received == []
