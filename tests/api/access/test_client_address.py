"""Behind trusted proxies, the client is the last one in X-Forwarded-For that is no proxy. Nobody else is believed."""

from typing import Any

import pytest

from bpc.api.access.client_address import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])


def _make_scope(peer: str | None, *lines: str) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in lines]
    return {"headers": headers, "client": None if peer is None else (peer, 4711)}


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        ("10.0.0.7", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7", ["203.0.113.9, 10.0.0.8"], "203.0.113.9"),
        ("10.0.0.7", ["1.2.3.4, 203.0.113.9", "10.0.0.8"], "203.0.113.9"),
        ("::ffff:10.0.0.7", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7", ["::ffff:203.0.113.9"], "203.0.113.9"),
        ("fd00::1", ["2001:db8::5"], "2001:db8::5"),
        ("10.0.0.7", ["10.0.0.9, 10.0.0.8"], "10.0.0.9"),  # nobody but proxies: the outermost
        ("10.0.0.7", ["203.0.113.9, nonsense, 10.0.0.8"], "10.0.0.8"),
        ("10.0.0.7", ["nonsense"], None),
        ("10.0.0.7", [""], None),
        ("10.0.0.7", ["203.0.113.9, " + "10.0.0.8, " * 20 + "10.0.0.8"], "10.0.0.8"),
        ("10.0.0.7", [], None),
        ("203.0.113.66", ["198.51.100.1"], None),  # no proxy of ours
        ("192.0.2.2", ["198.51.100.1"], None),
        (None, ["198.51.100.1"], None),
        ("unix", ["198.51.100.1"], None),
    ],
)
def test_the_client_is_whom_the_outermost_trusted_proxy_saw(
    peer: str | None, lines: list[str], client: str | None
) -> None:
    assert PROXIES.find_client(_make_scope(peer, *lines)) == client


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert TrustedProxies([]).find_client(_make_scope("127.0.0.1", "198.51.100.1")) is None
