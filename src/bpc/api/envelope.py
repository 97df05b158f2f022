"""Errors as clients see them: one shape for everything that is not a success, made in one place.

Refusal, JobsRefusal ─► the table of codes
FastAPI's own (bad input, unknown route, wrong method) ─► ours
anything else ─► INTERNAL_ERROR without internals; the log has them under the correlation id
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.responses import Response

from bpc.core.errors import CODES, Refusal
from bpc.jobs.errors import JobsRefusal
from bpc.logs import correlation_id, logger

JSON: Final = "application/json"
MEMBER: Final = re.compile("[A-Za-z0-9_]{1,40}|[a-z-]{1,40}")
BY_STATUS: Final[Mapping[int, tuple[str, str]]] = {
    404: ("NOT_FOUND", "there is no such route; see /v1/openapi.json"),
    405: ("METHOD_NOT_ALLOWED", "this route does not take that method; the header Allow says which it takes"),
}
BUG: Final = "something went wrong on our side; try again, and if it stays so, report the correlation_id"
# What these say is for who runs the service: it names hosts, settings and tables. It goes to the log.
OURS: Final[Mapping[str, str]] = {
    "DB_UNAVAILABLE": "the database cannot be used at the moment; try again",
    "SCHEMA_MISMATCH": "the service is being updated; try again later",
    "CONFIG_MISSING": BUG,
    "INTERNAL_ERROR": BUG,
}
LONGEST_PLACE: Final = 200  # characters: a member's name is the sender's, and may be as long as a body
MOST_PROBLEMS: Final = 100
log = logger(__name__)


def envelope(
    code: str,
    message: str,
    details: Mapping[str, object] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> Response:
    """An error answer; the status is the code's unless it is given."""
    body = {
        "error": {
            "code": code,
            "message": message,
            "correlation_id": correlation_id(),
            "details": dict(details or {}),
        }
    }
    return Response(
        _json(body),
        status_code=status or CODES[code].http,
        headers=dict(headers or {}),
        media_type=JSON,
    )


def _json(body: object) -> bytes:
    try:
        return orjson.dumps(body, default=str)
    except TypeError:  # a number above 64 bits, a lone surrogate: an error must not fail over what it is about
        return json.dumps(body, default=str).encode()


def of_refusal(refusal: Refusal | JobsRefusal) -> Response:
    """A refusal as an answer: its sentence, with the next step where there is one."""
    status = (refusal.http if isinstance(refusal, Refusal) else None) or CODES[refusal.code].http
    headers = _headers(refusal, status)
    if refusal.code in OURS:
        log.error("a request could not be served", code=refusal.code, reason=refusal.says, fix=refusal.fix)
        return envelope(refusal.code, OURS[refusal.code], headers=headers, status=status)
    message = refusal.says if refusal.fix is None else f"{refusal.says}; {refusal.fix}"
    return envelope(refusal.code, message, refusal.details, headers=headers, status=status)


def _headers(refusal: Refusal | JobsRefusal, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="bpc"'
    if (seconds := refusal.details.get("retry_after")) is not None:
        headers["Retry-After"] = str(seconds)
    elif status == 503:
        headers["Retry-After"] = "1"
    if refusal.code == "REQUEST_TIMEOUT":
        headers["Connection"] = "close"  # what is still on its way belongs to nobody
    return headers


def of_problems(problems: Sequence[Mapping[str, Any]]) -> Response:
    """What is wrong with the input, all of it; never the input itself, which may be a secret."""
    found = [{"at": _place(wrong["loc"]), "says": _says(wrong)} for wrong in problems[:MOST_PROBLEMS]]
    shown = "; ".join(f"`{one['at']}`: {one['says']}" for one in found[:3])
    more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
    return envelope("VALIDATION_ERROR", f"the request is not right: {shown}{more}", {"problems": found})


def _place(parts: Sequence[object]) -> str:
    # The name of a member that nobody knows is input as well.
    return ".".join(str(part) if MEMBER.fullmatch(str(part)) else "…" for part in parts)[:LONGEST_PLACE]


def _says(wrong: Mapping[str, Any]) -> str:
    return str(wrong["msg"]).removeprefix("Value error, ")[:500]


def of_status(status: int, headers: Mapping[str, str] | None) -> Response:
    """What the framework refuses by itself."""
    code, message = BY_STATUS.get(status, ("VALIDATION_ERROR", "the request is not right"))
    return envelope(code, message, headers=headers)


def of_head(most: int) -> Response:
    """The request line and headers are too large."""
    message = f"the request line and headers have more than {most:,} bytes; send fewer or shorter ones"
    return envelope("HEADERS_TOO_LARGE", message, {"most": most}, headers={"Connection": "close"})


def of_nonsense() -> Response:
    """Not HTTP."""
    return envelope("BAD_REQUEST", "this is not an HTTP request; send HTTP/1.1", headers={"Connection": "close"})


def of_slowness(seconds: float) -> Response:
    """The head of a request did not arrive."""
    message = f"the request line and headers did not arrive within {seconds:g} s; send them at once"
    return envelope("HEADERS_TIMEOUT", message, headers={"Connection": "close"})


def of_stop() -> Response:
    """The service stops before the request is done."""
    message = "the service is stopping; send it again with the same Idempotency-Key"
    return envelope("REQUEST_TIMEOUT", message, headers={"Connection": "close", "Retry-After": "1"})


def of_bug() -> Response:
    return envelope("INTERNAL_ERROR", BUG)
