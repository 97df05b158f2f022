"""Where the API listens, and how to call that place."""

from typing import Annotated, Final

import typer

from bpc.settings import Settings
from bpc.sockets import LOCAL

EVERYWHERE: Final = {"0.0.0.0": LOCAL, "::": "::1"}  # noqa: S104 (not listened on: what to call it)

Host = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="Address to listen on; BPC_HTTP_HOST, else 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="N", min=0, max=65_535, help="Port of the API; BPC_HTTP_PORT. 0 takes a free one."),
]


def address(settings: Settings, host: str | None, port: int | None) -> tuple[str, int]:
    """Where to listen: what was said, or else the settings."""
    return host or settings.http_host or LOCAL, settings.http_port if port is None else port


def url_of(host: str, port: int) -> str:
    """How to reach what listens there, from here."""
    shown = EVERYWHERE.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
