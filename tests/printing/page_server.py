"""Serves a folder on this machine as a web server in front of pages would: with their content security policy."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bpc.printing.web_page import CONTENT_SECURITY_POLICY


class _PageHandler(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """The address of a server of this folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_PageHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
