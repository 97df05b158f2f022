"""From the name in a URL to the addresses that may be connected to.

    Destination ─► every address of its name ─► may all of them be reached? ─► the addresses

A name is resolved here, once, and what is connected to is what was checked: a name server that answers differently the
next time is not asked a next time. One closed address among open ones closes the name, or which of them is tried would
be left to chance.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from bpc.core.outbound_urls import Destination, OutboundBlocked, may_reach
from bpc.outbound.answers import OutboundFailed

MOST_TRIED: Final = 4  # addresses of a name

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses this machine knows for a name, in the order it would try them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return list(dict.fromkeys(str(place[4][0]) for place in found))


async def addresses_of(wanted: Destination, *, allow: Sequence[str], resolve: Resolve) -> Sequence[Address]:
    """Raises `OutboundBlocked`, or `OutboundFailed` for a name without an address."""
    found: list[Address] = [wanted.address] if wanted.address is not None else []
    if wanted.address is None:
        found = [ip_address(text) for text in await resolve(wanted.host, wanted.port)]
    if not found:
        raise OutboundFailed(f"the name `{wanted.host}` has no address", fix="check its spelling and its DNS records")
    if not all(may_reach(wanted, address, allow) for address in found):
        raise OutboundBlocked
    return found[:MOST_TRIED]
