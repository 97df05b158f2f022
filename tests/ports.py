"""Ports for whatever must be told its port before it listens on it."""

import socket
from contextlib import suppress

from bpc import fresh

# Linux gives those above to whoever asks for any, also to every connection that goes out.
NOBODYS = range(10_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens, and which nobody gets who has not asked for just that one."""
    found: set[int] = set()
    while len(found) < count:
        port = NOBODYS[int.from_bytes(fresh.entropy(4)) % len(NOBODYS)]
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return list(found)
