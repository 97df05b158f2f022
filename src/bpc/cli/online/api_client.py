"""What every command over the API needs: the address, the key, and how refusals are printed.

The address is --url, BPC_URL or port 8080 of this machine. The key is BPC_API_KEY or, for an address on this machine,
the key that `bpc up` stores in the data folder. A key is never an argument: other users can see arguments.
"""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import typer
from bpc_client import ApiError, Client, JobFailed, Unreachable, WaitTimeout
from bpc_client.client import parse_host

from bpc.cli.support.arguments import LOCAL_API_URL, require_utf8
from bpc.cli.support.output import REFUSED, UNAVAILABLE, choose_exit_code, print_refusal
from bpc.core.errors import CODES, Invalid

LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
START_HINT: Final = "start it with `bpc up`, or set its address with --url or BPC_URL"


@asynccontextmanager
async def open_api(url: str | None, *, as_json: bool) -> AsyncIterator[Client]:
    """Yield a client; print a refusal of the API, its code first, and end the command."""
    address = url or os.environ.get("BPC_URL") or LOCAL_API_URL
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # the command itself says what it does
    try:
        async with _make_client(address) as client:
            yield client
    except ApiError as refused:
        details = dict(refused.details)
        if refused.correlation_id is not None:
            details["correlation_id"] = refused.correlation_id
        print_refusal(refused.code, refused.message, None, details, as_json=as_json)
        raise typer.Exit(choose_exit_code(refused.code) if refused.code in CODES else REFUSED) from None
    except JobFailed as failed:
        error = failed.error or {}
        code = str(error.get("code", failed.status))
        print_refusal(code, str(failed), None, {"job_id": failed.job_id, "status": failed.status}, as_json=as_json)
        raise typer.Exit(REFUSED) from None
    except Unreachable as lost:
        print_refusal("REQUEST_TIMEOUT", str(lost), START_HINT, {"url": address}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None
    except WaitTimeout as late:
        print_refusal("JOB_TIMEOUT", str(late), "the job may still finish; see `bpc jobs`", {}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None


def _make_client(address: str) -> Client:
    try:
        host = parse_host(require_utf8("the address", address))
    except ValueError:
        raise Invalid(f"`{address}` is not a valid API address", fix=f"write it like {LOCAL_API_URL}") from None
    return Client(address, _find_key(host))


def _find_key(host: str) -> str:
    if key := os.environ.get("BPC_API_KEY", "").strip():
        if not key.isascii() or not key.isprintable():
            raise Invalid("BPC_API_KEY is not an API key", fix="copy the whole key again, starting with `bpc_`")
        return key
    # The key of this machine is never sent to another one.
    if host in LOCAL_HOSTS and (first_key := _read_local_key()) is not None:
        return first_key
    raise Invalid("there is no API key", fix="set BPC_API_KEY; `bpc apikey create` creates a key")


def _read_local_key() -> str | None:
    # Slow to import, and not needed with BPC_API_KEY.
    from bpc.cli.support.session import load_settings_and_logs, read_first_key  # noqa: PLC0415

    key = read_first_key(load_settings_and_logs("online").data_dir)
    return None if key is None else key.text
