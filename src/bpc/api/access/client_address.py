"""Whose address a request came from, behind proxies that the operator trusts.

    peer 10.0.0.7, X-Forwarded-For: 203.0.113.9, 10.0.0.8   ── 10.0.0.0/8 is trusted ──► 203.0.113.9

Each proxy adds the address that it was reached from, so the last entry that is no trusted proxy is the client. What
stands before it was written by the client, and counts for nothing. Without trusted proxies the header is not read.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

MAX_ENTRIES: Final = 10  # proxies in a row; more are no way to us


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` counts."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = [ip_network(network, strict=False) for network in networks]

    def find_client(self, scope: Mapping[str, Any]) -> str | None:
        """The address of the client; None if the peer itself is the client."""
        if not self._networks:
            return None
        peer = _parse((scope.get("client") or ("",))[0])
        if peer is None or not self._trusts(peer):
            return None
        client: str | None = None
        for entry in reversed(_list_entries(scope)):
            address = _parse(entry)
            if address is None:
                break
            client = str(address)
            if not self._trusts(address):
                break
        return client

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address.version == network.version and address in network for network in self._networks)


def _list_entries(scope: Mapping[str, Any]) -> list[str]:
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return [entry.strip() for line in lines for entry in line.split(",")][-MAX_ENTRIES:]


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
