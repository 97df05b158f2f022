"""Sockets from systemd: used if they are meant for this process and listen, otherwise refused."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bpc.runtime.sockets import take_systemd_socket

# In a child process: systemd passes descriptor 3, which this process uses for something else.
TAKING = """
import os, sys
from bpc.runtime.sockets import CannotListen, take_systemd_socket
os.dup2(int(sys.argv[1]), 3)
pid = os.getpid() if sys.argv[2] == "us" else 1
try:
    sock = take_systemd_socket({"LISTEN_PID": str(pid), "LISTEN_FDS": sys.argv[3]}, os.getpid())
except CannotListen as refused:
    print(refused.says)
else:
    print(sock and sock.getsockname()[1], sock and (sock.get_inheritable(), sock.getblocking(), sock.proto))
"""


def take_in_child(sock: socket.socket, whom: str = "us", count: str = "1") -> str:
    command = [sys.executable, "-c", TAKING, str(sock.fileno()), whom, count]
    done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=[sock.fileno()])
    return done.stdout.strip()


def test_a_socket_that_listens_is_taken_and_not_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert take_in_child(sock) == f"{sock.getsockname()[1]} (False, False, {socket.IPPROTO_TCP})"


@pytest.mark.parametrize(("whom", "count"), [("another", "1"), ("us", "0")])
def test_a_socket_for_another_process_is_left_alone(whom: str, count: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert take_in_child(sock, whom, count) == "None None"


def test_without_a_systemd_socket_none_is_taken() -> None:
    assert take_systemd_socket({}, os.getpid()) is None


def test_several_systemd_sockets_are_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert take_in_child(sock, count="2") == "cannot use the socket of systemd: there are 2 sockets, expected 1"


def _make_not_listening(_: Path) -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


def _make_datagram_socket(_: Path) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _make_unix_socket(folder: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(folder / "s"))
    sock.listen()
    return sock


@pytest.mark.parametrize("make_socket", [_make_not_listening, _make_datagram_socket, _make_unix_socket])
def test_what_does_not_listen_on_a_port_is_refused(
    make_socket: Callable[[Path], socket.socket], tmp_path: Path
) -> None:
    with make_socket(tmp_path) as sock:
        assert take_in_child(sock) == "cannot use the socket of systemd: it does not listen on a port"


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        command = [sys.executable, "-c", TAKING, str(file), "us", "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=[file])
    finally:
        os.close(file)

    assert done.stdout == "cannot use the socket of systemd: Socket operation on non-socket\n"
