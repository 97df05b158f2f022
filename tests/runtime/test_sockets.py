"""Sockets that somebody hands over: taken where they are meant for us and listen, otherwise refused in words."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bpc.sockets import handed_over

# In a process of its own: what is handed over is descriptor 3, which in ours is something else.
TAKING = """
import os, sys
from bpc.sockets import CannotTake, handed_over
os.dup2(int(sys.argv[1]), 3)
pid = os.getpid() if sys.argv[2] == "us" else 1
try:
    found = handed_over({"LISTEN_PID": str(pid), "LISTEN_FDS": sys.argv[3]}, os.getpid())
except CannotTake as refused:
    print(refused.says)
else:
    print(found and found.getsockname()[1], found and (found.get_inheritable(), found.getblocking(), found.proto))
"""


def taken(sock: socket.socket, whom: str = "us", count: str = "1") -> str:
    command = [sys.executable, "-c", TAKING, str(sock.fileno()), whom, count]
    done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=[sock.fileno()])
    return done.stdout.strip()


def test_a_socket_that_listens_is_taken_and_not_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert taken(sock) == f"{sock.getsockname()[1]} (False, False, {socket.IPPROTO_TCP})"


@pytest.mark.parametrize(("whom", "count"), [("another", "1"), ("us", "0")])
def test_what_is_not_meant_for_us_is_left_alone(whom: str, count: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert taken(sock, whom, count) == "None None"


def test_nothing_is_taken_where_nobody_hands_over_anything() -> None:
    assert handed_over({}, os.getpid()) is None


def test_of_several_sockets_none_is_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert taken(sock, count="2") == "cannot take the socket of the service manager: there are 2"


def _deaf(_: Path) -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def _datagrams(_: Path) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _without_a_port(folder: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(folder / "s"))
    sock.listen()
    return sock


@pytest.mark.parametrize("made", [_deaf, _datagrams, _without_a_port])
def test_what_does_not_listen_on_a_port_is_refused(made: Callable[[Path], socket.socket], tmp_path: Path) -> None:
    with made(tmp_path) as sock:
        assert taken(sock) == "cannot take the socket of the service manager: it does not listen on a port"


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        command = [sys.executable, "-c", TAKING, str(file), "us", "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=[file])
    finally:
        os.close(file)

    assert done.stdout == "cannot take the socket of the service manager: Socket operation on non-socket\n"
