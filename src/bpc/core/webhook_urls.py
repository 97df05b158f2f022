"""Where webhooks may go, as far as a URL says it by itself.

Pure. A URL has one plain form: scheme, host, maybe a port, path and query; no user, no fragment, nothing that two
programs could read in two ways. An address in it must be one of the open Internet, unless the installation names it.
What a name resolves to is found out, and checked, when something is sent.

    url ─► checked_url ─┬─► the same text
                        ├─► BadUrl           it has not that form
                        └─► OutboundBlocked  it names an address that nothing is sent to
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final

from bpc.core.errors import Invalid, Refusal

LONGEST: Final = 2000
_URL: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?:[/?](?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# Programs read `2130706433`, `0x7f.1` and `127.1` as addresses too: what ends in a number is four numbers or nothing.
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")

# https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast
_CLOSED_V4: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
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
_OPEN_V6: Final = ip_network("2000::/3")
_CLOSED_V6: Final = tuple(ip_network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))


class BadUrl(Invalid):
    """Not a URL that something can be sent to."""

    def __init__(self, says: str) -> None:
        super().__init__(says, fix="write it like `https://example.com/hooks/battery`")


class OutboundBlocked(Refusal):
    """An address that is not on the open Internet."""

    code = "OUTBOUND_BLOCKED"

    def __init__(self) -> None:
        super().__init__(
            "nothing is sent to a private, local or special address",
            fix="use a public one, or have it named in BPC_OUTBOUND_ALLOW",
        )


def checked_url(text: str, *, https_only: bool, allowed: Iterable[str] = ()) -> str:
    """`text`, or the refusal of what is wrong with it. `allowed` are networks, or addresses with or without a port."""
    if len(text) > LONGEST:
        raise BadUrl(f"the URL has more than {LONGEST} characters")
    found = _URL.fullmatch(text)
    if found is None:
        raise BadUrl("the URL is not http or https, a host, and maybe port, path and query, in plain ASCII")
    if https_only and found["scheme"] != "https":
        raise BadUrl("the URL must begin with `https://`")
    port = _port(found["port"], found["scheme"])
    address = _address_v6(found["v6"]) if found["v6"] is not None else _address_v4(found["name"])
    if address is not None and not is_open(address) and not any(_names(item, address, port) for item in allowed):
        raise OutboundBlocked
    return text


def is_open(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the open Internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_V4)
    return address in _OPEN_V6 and not any(address in network for network in _CLOSED_V6)


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return 443 if scheme == "https" else 80
    if not 1 <= int(text) <= 65535:
        raise BadUrl("the URL's port is not between 1 and 65535")
    return int(text)


def _address_v6(text: str) -> IPv6Address:
    try:
        return IPv6Address(text)
    except ValueError:
        raise BadUrl("the URL has something in brackets that is not an address") from None


def _address_v4(host: str) -> IPv4Address | None:
    """The address that `host` is; None for a name."""
    labels = host.split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("the URL's host is not a name")
    if not _NUMBER.fullmatch(labels[-1]):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise BadUrl("the URL's host looks like an address and is none") from None


def _names(item: str, address: IPv4Address | IPv6Address, port: int) -> bool:
    """Whether an entry of the installation's list names this address."""
    try:
        return address in ip_network(item, strict=False)
    except ValueError:
        host, _, named_port = item.partition(":")
        return named_port == str(port) and host == str(address)
