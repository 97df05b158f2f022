"""Sockets to listen on: an address in, a bound socket out, before anything else is started.

Where a service manager holds the socket (systemd's socket activation), that one is used: it stays open while one
process takes the place of another, and who connects meanwhile waits instead of being refused.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bpc.core.errors import Refusal

LOCAL: Final = "127.0.0.1"  # where nobody says where: only this machine reaches it
BACKLOG: Final = 2048
FIRST_HANDED_OVER: Final = 3  # sd_listen_fds(3): SD_LISTEN_FDS_START


class CannotListen(Refusal):
    """The address is taken, or not ours."""

    code = "CONFIG_MISSING"

    def __init__(self, host: str, port: int, why: OSError, fix: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why.strerror or why}", fix=fix)


class CannotTake(Refusal):
    """What a service manager handed over is not one socket that listens."""

    code = "CONFIG_MISSING"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"cannot take the socket of the service manager: {why}",
            fix="give the socket unit one ListenStream= with an address and a port, and Accept=no",
        )


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


def handed_over(environ: Mapping[str, str], pid: int) -> socket.socket | None:
    """The socket that a service manager holds for the process `pid`; None where there is none."""
    # sd_listen_fds(3): the variables are meant for one process, and what that starts inherits them too.
    count = environ.get("LISTEN_FDS", "0")
    if environ.get("LISTEN_PID") != str(pid) or count == "0":
        return None
    if count != "1":
        raise CannotTake(f"there are {count}")
    try:
        sock = inherited(FIRST_HANDED_OVER)
    except OSError as failed:
        raise CannotTake(failed.strerror or str(failed)) from failed
    if sock.family not in {socket.AF_INET, socket.AF_INET6} or not _listens(sock):
        sock.close()
        raise CannotTake("it does not listen on a port")
    return sock


def _listens(sock: socket.socket) -> bool:
    return sock.type == socket.SOCK_STREAM and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def inherited(descriptor: int) -> socket.socket:
    """A socket that whoever started us handed over; what we start does not get it."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
