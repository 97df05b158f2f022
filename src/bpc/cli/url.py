"""Where the API is, as an option. Apart from what asks it, whose client is slow to import."""

from typing import Annotated, Final

import typer

HERE: Final = "http://127.0.0.1:8080"

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where the API is; BPC_URL, else http://127.0.0.1:8080.")
]
