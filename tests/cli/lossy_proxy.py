"""A connection that breaks at the worst moment: what was asked is done, and the answer is lost."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


@contextmanager
def lose_answers(url: str, request_line: bytes) -> Iterator[str]:
    """An address of the API at `url`, where every request whose bytes have `to` in them is answered to nobody."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    behind = parts.hostname, parts.port
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, behind, request_line), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)  # which wakes the one that accepts


def _accept(listener: socket.socket, behind: tuple[str, int | None], request_line: bytes) -> None:
    with suppress(OSError):
        while True:
            front, _ = listener.accept()
            back = socket.create_connection((behind[0], behind[1] or 80))
            lost = threading.Event()
            threading.Thread(target=_forward_request, args=(front, back, request_line, lost), daemon=True).start()
            threading.Thread(target=_forward_answer, args=(front, back, lost), daemon=True).start()


def _forward_request(front: socket.socket, back: socket.socket, request_line: bytes, lost: threading.Event) -> None:
    with suppress(OSError):
        while data := front.recv(65536):
            if request_line in data:
                lost.set()
            back.sendall(data)
        back.shutdown(socket.SHUT_WR)


def _forward_answer(front: socket.socket, back: socket.socket, lost: threading.Event) -> None:
    with front, back, suppress(OSError):
        while data := back.recv(65536):
            if lost.is_set():
                front.shutdown(socket.SHUT_RDWR)
                return
            front.sendall(data)
