"""Ports for whatever must be told its port before it listens on it."""

import socket
from contextlib import suppress

from bpc.runtime import clock

# Linux gives those above to whoever asks for any, also to every connection that goes out.
UNASSIGNED_PORTS = range(10_000, 32_768)


def find_free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens, and which nobody gets who has not asked for just that one."""
    free: set[int] = set()
    while len(free) < count:
        port = UNASSIGNED_PORTS[int.from_bytes(clock.random_bytes(4)) % len(UNASSIGNED_PORTS)]
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            free.add(port)
    return list(free)
