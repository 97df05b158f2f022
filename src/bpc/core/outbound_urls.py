"""Outbound URLs: where the service may send a webhook or fetch a document for a tenant.

Pure. A URL has one plain form: scheme, host, optional port, path and query; no user, no fragment, nothing that two
programs could read in two ways. An IP address in it must be public, unless the installation allows it. What a host name
resolves to is looked up and checked when something is sent.

    url ─► check_url ─┬─► the same text
                      ├─► BadUrl           the URL does not have that form
                      └─► OutboundBlocked  it names an address that nothing is sent to

    url ─► parse_destination ─► Destination ─► may_reach(destination, the address it resolved to)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from bpc.core.errors import Invalid, Refusal

MAX_URL_LENGTH: Final = 2000
_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?](?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
_PORTS: Final = {"http": 80, "https": 443}
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# Programs read `2130706433`, `0x7f.1` and `127.1` as addresses too: what ends in a number is four numbers or nothing.
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")

# https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast
_NON_PUBLIC_V4: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # in Azure, the machine's own platform: public by its number only
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
# Of IPv6 only 2000::/3 is given out, and parts of that carry an IPv4 address inside (Teredo, 6to4) or are for books.
# NAT64, mapped addresses, link-local and private ones and multicast lie outside of it.
_PUBLIC_V6: Final = ip_network("2000::/3")
_NON_PUBLIC_V6: Final = tuple(ip_network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))


class BadUrl(Invalid):
    """The URL does not have the plain form."""

    def __init__(self, says: str) -> None:
        super().__init__(says, fix="write it like `https://example.com/battery`")


class NotHttps(BadUrl):
    """The URL uses plain HTTP where HTTPS is required."""

    def __init__(self) -> None:
        super().__init__("the URL must begin with `https://`")


class OutboundBlocked(Refusal):
    """The address is not public."""

    code = "OUTBOUND_BLOCKED"

    def __init__(self) -> None:
        super().__init__(
            "the address is private, local or reserved, so nothing is sent to it",
            fix="use a public address",
            hint="allow the address",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What a URL of the plain form says. `host` is as it is written there; `address` is None if it is a name."""

    scheme: str
    host: str
    port: int
    target: str
    address: IPv4Address | IPv6Address | None

    @property
    def authority(self) -> str:
        """Host and port as they are sent and shown: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def check_url(text: str, *, https_only: bool, allowlist: Iterable[str] = ()) -> str:
    """`text`, if something may be sent to it; otherwise a refusal. `allowlist`: see `may_reach`."""
    destination = parse_destination(text, https_only=https_only)
    if destination.address is not None and not may_reach(destination, destination.address, allowlist):
        raise OutboundBlocked
    return text


def parse_destination(text: str, *, https_only: bool) -> Destination:
    """The parts of a URL. Raises `BadUrl`."""
    if len(text) > MAX_URL_LENGTH:
        raise BadUrl(f"the URL has more than {MAX_URL_LENGTH} characters")
    match = _URL.fullmatch(text)
    if match is None:
        raise BadUrl("the URL is not http or https, a host, and maybe port, path and query, in plain ASCII")
    if https_only and match["scheme"] != "https":
        raise NotHttps
    target = match["target"] or "/"
    return Destination(
        scheme=match["scheme"],
        host=match["name"] or match["v6"],
        port=_parse_port(match["port"], match["scheme"]),
        target=target if target.startswith("/") else f"/{target}",
        address=_parse_ipv4(match["name"]) if match["v6"] is None else _parse_ipv6(match["v6"]),
    )


def may_reach(destination: Destination, address: IPv4Address | IPv6Address, allowlist: Iterable[str]) -> bool:
    """Whether something may be sent to `address` because `destination` resolved to it.

    It is one of the open Internet, or the installation names it: by a network, or by an address or a host (`*.` before
    it for all below it), each with or without a port.
    """
    return is_public(address) or is_allowlisted(destination, address, allowlist)


def is_allowlisted(
    destination: Destination, address: IPv4Address | IPv6Address | None, allowlist: Iterable[str]
) -> bool:
    """Whether the installation names this destination: by its host or, where that is known, by its address."""
    return any(_entry_matches(entry, destination, address) for entry in allowlist)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the open Internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NON_PUBLIC_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _NON_PUBLIC_V6)


def _parse_port(text: str | None, scheme: str) -> int:
    if text is None:
        return _PORTS[scheme]
    if not 1 <= int(text) <= 65535:
        raise BadUrl("the URL's port is not between 1 and 65535")
    return int(text)


def _parse_ipv6(text: str) -> IPv6Address:
    try:
        return IPv6Address(text)
    except ValueError:
        raise BadUrl("the text in brackets is not an IPv6 address") from None


def _parse_ipv4(host: str) -> IPv4Address | None:
    """The address that `host` is; None for a name."""
    labels = host.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("the URL's host is not a valid host name")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise BadUrl("the URL's host looks like an IP address but is not a valid one") from None


def _entry_matches(entry: str, destination: Destination, address: IPv4Address | IPv6Address | None) -> bool:
    """Whether an entry of the installation's list names this destination. Folders are on it too, and name none."""
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        host, _, port = entry.partition(":")
    else:
        return address is not None and address in network
    if port and port != str(destination.port):
        return False
    try:
        return ip_address(host) == address
    except ValueError:
        return _host_matches(host, destination.host)


def _host_matches(pattern: str, host: str) -> bool:
    is_wildcard, name = pattern.startswith("*."), re.escape(pattern.removeprefix("*."))
    return re.fullmatch(rf".+\.{name}" if is_wildcard else name, host, re.ASCII | re.IGNORECASE) is not None
