"""Sockets to listen on: an address in, a bound socket out, before anything else is started."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bpc.core.errors import Refusal

LOCAL: Final = "127.0.0.1"  # where nobody says where: only this machine reaches it
BACKLOG: Final = 2048


class CannotListen(Refusal):
    """The address is taken, or not ours."""

    code = "CONFIG_MISSING"

    def __init__(self, host: str, port: int, why: OSError, fix: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why.strerror or why}", fix=fix)


@contextmanager
def bound(host: str, port: int, *, fix: str) -> Iterator[socket.socket]:
    """A socket that listens there until the block ends; `fix` says what to do where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or loops do not switch Nagle off
    with sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError as why:
            raise CannotListen(host, port, why, fix) from why
        yield sock


def inherited(descriptor: int) -> socket.socket:
    """A socket that whoever started us handed over; what we start does not get it."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
