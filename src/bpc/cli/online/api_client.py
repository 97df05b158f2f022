"""What every command over the API needs: a client, and how refusals are printed."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import typer
from bpc_client import ApiError, ApprovalPending, Client, JobFailed, Unreachable, WaitTimeout
from bpc_client.client import parse_host
from pydantic import BaseModel

from bpc.cli.support.arguments import LOCAL_API_URL, require_utf8
from bpc.cli.support.output import REFUSED, UNAVAILABLE, choose_exit_code, print_json, print_refusal, print_table
from bpc.cli.support.service import ServiceAddress, locate_service
from bpc.core.errors import CODES, Invalid

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

START_HINT: Final = "start it with `bpc up`, or set its address with --url or BPC_URL"


@asynccontextmanager
async def open_api(url: str | None, *, as_json: bool) -> AsyncIterator[Client]:
    """Yield a client with the API key; print a refusal of the API, its code first, and end the command."""
    service = locate_service(url)
    async with end_refusals(_make_client(service), service.url, as_json=as_json) as client:
        yield client


@asynccontextmanager
async def end_refusals(client: Client, url: str, *, as_json: bool) -> AsyncIterator[Client]:
    """Open a client; print a refusal of the API, its code first, and end the command."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # the command itself says what it does
    try:
        async with client:
            yield client
    except ApiError as api_error:
        details = dict(api_error.details)
        if api_error.correlation_id is not None:
            details["correlation_id"] = api_error.correlation_id
        fix = (
            f"they run `bpc approvals approve {api_error.approval_id}`"
            if isinstance(api_error, ApprovalPending)
            else None
        )
        print_refusal(api_error.code, api_error.message, fix, details, as_json=as_json)
        raise typer.Exit(choose_exit_code(api_error.code) if api_error.code in CODES else REFUSED) from None
    except JobFailed as failure:
        error = failure.error or {}
        code = str(error.get("code", failure.status))
        print_refusal(code, str(failure), None, {"job_id": failure.job_id, "status": failure.status}, as_json=as_json)
        raise typer.Exit(REFUSED) from None
    except Unreachable as outage:
        print_refusal("UNREACHABLE", str(outage), START_HINT, {"url": url}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None
    except WaitTimeout as late:
        print_refusal("JOB_TIMEOUT", str(late), "the job may still finish; see `bpc jobs`", {}, as_json=as_json)
        raise typer.Exit(UNAVAILABLE) from None


def _make_client(service: ServiceAddress) -> Client:
    try:
        parse_host(require_utf8("the address", service.url))
    except ValueError:
        raise Invalid(f"`{service.url}` is not a valid API address", fix=f"write it like {LOCAL_API_URL}") from None
    if service.api_key is None:
        raise Invalid("there is no API key", fix="set BPC_API_KEY; `bpc apikeys create` creates a key")
    return Client(service.url, service.api_key)


async def collect(items: AsyncIterator[T], limit: int | None = None) -> list[T]:
    """The items of a list, the first `limit` of them if there is one."""
    collected_items = []
    async for item in items:
        collected_items.append(item)
        if len(collected_items) == limit:
            break
    return collected_items


def print_models(
    models: Sequence[ModelT], headings: Sequence[str], to_row: Callable[[ModelT], Sequence[object]], *, as_json: bool
) -> None:
    """Print what the API listed: as a table with a row for each, or as JSON."""
    if as_json:
        print_json([model.model_dump(mode="json") for model in models])
    else:
        print_table(headings, [to_row(model) for model in models])
