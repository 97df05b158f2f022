"""Sockets to listen on: an address in, a bound socket out, before anything else is started.

Under systemd socket activation the socket of systemd is used: it stays open while one process replaces another, and
clients that connect meanwhile wait instead of being refused.
"""

import errno
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bpc.core.errors import Refusal

LOOPBACK: Final = "127.0.0.1"  # default host: reachable from this machine only
BACKLOG: Final = 2048
FIRST_SYSTEMD_DESCRIPTOR: Final = 3  # sd_listen_fds(3): SD_LISTEN_FDS_START


class CannotListen(Refusal):
    """The address is not of this machine, or systemd did not pass exactly one listening socket."""

    code = "CONFIG_MISSING"


class PortInUse(CannotListen):
    """Another program listens on this address."""

    code = "PORT_IN_USE"


@contextmanager
def open_listening_socket(host: str, port: int, *, fix: str) -> Iterator[socket.socket]:
    """Yield a listening socket; `fix` is the hint if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol: without it, event loops do not switch off Nagle.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError as why:
            kind = PortInUse if why.errno == errno.EADDRINUSE else CannotListen
            raise kind(f"cannot listen on {host}:{port}: {why.strerror or why}", fix=fix) from why
        yield sock


def take_systemd_socket(environ: Mapping[str, str], pid: int) -> socket.socket | None:
    """The socket that systemd holds for the process `pid`; None if there is none."""
    # sd_listen_fds(3): children inherit the variables, but LISTEN_PID names the one process they are for.
    count = environ.get("LISTEN_FDS", "0")
    if environ.get("LISTEN_PID") != str(pid) or count == "0":
        return None
    if count != "1":
        raise _refuse_systemd_socket(f"there are {count} sockets, expected 1")
    try:
        sock = open_inherited_socket(FIRST_SYSTEMD_DESCRIPTOR)
    except OSError as error:
        raise _refuse_systemd_socket(error.strerror or str(error)) from error
    if sock.family not in {socket.AF_INET, socket.AF_INET6} or not _is_listening(sock):
        sock.close()
        raise _refuse_systemd_socket("it does not listen on a port")
    return sock


def _refuse_systemd_socket(why: str) -> CannotListen:
    fix = "give the socket unit one ListenStream= with an address and a port, and Accept=no"
    return CannotListen(f"cannot use the socket of systemd: {why}", fix=fix)


def _is_listening(sock: socket.socket) -> bool:
    return sock.type == socket.SOCK_STREAM and bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def open_inherited_socket(descriptor: int) -> socket.socket:
    """A socket that the parent process passed; our own children do not inherit it."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock
