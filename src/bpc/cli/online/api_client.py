"""What every command that asks an API does: where it is, with which key, and what its refusals look like.

The address is --url, BPC_URL or this machine's port 8080. The key is BPC_API_KEY or, for an address on this machine,
the one that `bpc up` keeps in the data directory. A key is never an argument: others can see those.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import typer

from bpc.cli.first_key import first_key
from bpc.cli.output import REFUSED, UNAVAILABLE, exit_code, print_refusal
from bpc.cli.text import checked_text
from bpc.cli.url import HERE
from bpc.client import ApiError, Client, JobFailed, StillWaiting, Unreachable
from bpc.client.client import host_of
from bpc.core.errors import CODES, Invalid

T = TypeVar("T")

LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
START: Final = "start it with `bpc up`, or say where it is with --url or BPC_URL"


def ask(url: str | None, work: Callable[[Client], Awaitable[T]], *, as_json: bool) -> T:
    """What `work` makes of a client; a refusal is printed, its code first, and ends the command."""
    address = url or os.environ.get("BPC_URL") or HERE
    client = _client(address)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # what is asked is what the command says
    try:
        return asyncio.run(_asked(client, work))
    except ApiError as refused:
        details = dict(refused.details)
        if refused.correlation_id is not None:
            details["correlation_id"] = refused.correlation_id
        print_refusal(refused.code, refused.message, None, details, as_json=as_json)
        raise typer.Exit(exit_code(refused.code) if refused.code in CODES else REFUSED) from None
    except JobFailed as failed:
        error = failed.error or {}
        code = str(error.get("code", failed.status))
        print_refusal(code, str(failed), None, {"job_id": failed.job_id, "status": failed.status}, as_json=as_json)
        raise typer.Exit(REFUSED) from None
    except Unreachable as lost:
        print_refusal("REQUEST_TIMEOUT", str(lost), START, {"url": address}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None
    except StillWaiting as late:
        print_refusal("JOB_TIMEOUT", str(late), "it may still be done; look at `bpc jobs`", {}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None


async def _asked(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    async with client:
        return await work(client)


def _client(address: str) -> Client:
    try:
        host = host_of(checked_text("the address", address))
    except ValueError:
        raise Invalid(f"`{address}` is no address of an API", fix=f"write it like {HERE}") from None
    return Client(address, _key(host))


def _key(host: str) -> str:
    if key := os.environ.get("BPC_API_KEY", "").strip():
        if not key.isascii() or not key.isprintable():
            raise Invalid("BPC_API_KEY is not an API key", fix="copy it again, from `bpc_` to its end")
        return key
    # What was made for this machine is not sent to another.
    if host in LOCAL and (kept := _kept()) is not None:
        return kept
    raise Invalid("there is no API key", fix="set BPC_API_KEY; `bpc apikey create` makes one")


def _kept() -> str | None:
    from bpc.cli.session import settings_for  # noqa: PLC0415 (slow to import, and who has a key needs no settings)

    key = first_key(settings_for("online").data_dir)
    return None if key is None else key.text
