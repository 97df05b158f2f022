"""Requests that offer another protocol (`Upgrade: h2c`, as Java's HTTP client sends) are read as plain HTTP/1.1.

RFC 9110 7.8: a server may ignore the offer. But the parser does not read the body of such a request: it takes what
follows for the other protocol. So its head is given to a new parser without the offer, and then the rest.

A WebSocket is the one protocol that is taken, at the one address that has one.

    head with an offer ─► parser stops ─► the same head without the offer, and what follows ─► a new parser
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import httptools

OFFER_HEADERS: Final = frozenset({b"upgrade", b"http2-settings"})
TUNNEL: Final = b"CONNECT"  # it has no body, and no head without an offer


class HeadReceiver(Protocol):
    """What a parser reports to, and what it has of the head."""

    url: bytes
    headers: list[tuple[bytes, bytes]]

    def takes_offer(self) -> bool:
        """Whether this head offers a protocol that is spoken here."""


class OfferIgnoringParser:
    """A parser of requests that goes on after a head with an offer."""

    def __init__(self, receiver: HeadReceiver) -> None:
        self._receiver = receiver
        self._parser: Any = self._make_parser()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def has_ignored_offer(self) -> bool:
        """Whether the head that is being reported will be reported again, without its offer."""
        if not self._parser.should_upgrade() or self._parser.get_method() == TUNNEL:
            return False
        return not self._receiver.takes_offer()

    def feed_data(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            if not self.has_ignored_offer:
                raise
            method, version = self._parser.get_method(), self._parser.get_http_version()
            head = encode_head(method, self._receiver.url, version, self._receiver.headers)
            self._parser = self._make_parser()
            self._parser.feed_data(head)
            self.feed_data(data[stopped.args[0] :])

    def _make_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self._receiver)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return parser


def encode_head(method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of a request without its offer of another protocol."""
    lines = [b"%s %s HTTP/%s" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            lines.append(b"connection: " + b", ".join(each for each in options if each.lower() not in OFFER_HEADERS))
        elif name not in OFFER_HEADERS:
            lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", b""])
