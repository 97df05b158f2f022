"""Error answers: every answer that is not a success has the same form and is built here.

Refusal, JobsRefusal ─► the table of codes
FastAPI's own (bad input, unknown route, wrong method) ─► ours
anything else ─► INTERNAL_ERROR without internals; the log has them under the correlation id
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from service_jobs.job import JobsRefusal
from starlette.responses import Response

from bpc.core.errors import CODES, Refusal, find_next_step
from bpc.runtime.logs import get_correlation_id, get_logger
from bpc.runtime.next_steps import OPERATOR_STEPS

JSON: Final = "application/json"
MEMBER: Final = re.compile("[A-Za-z0-9_]{1,40}|[a-z-]{1,40}")
ERRORS_BY_STATUS: Final[Mapping[int, tuple[str, str]]] = {
    404: ("NOT_FOUND", "there is no such route; see /v1/openapi.json"),
    405: ("METHOD_NOT_ALLOWED", "this route does not take this method; the header Allow lists the methods it takes"),
}
INTERNAL_MESSAGE: Final = "an internal error occurred; try again, and report the correlation_id if it happens again"
# The messages of these are for operators: they name hosts, settings and tables, so they go only to the log.
PUBLIC_MESSAGES: Final[Mapping[str, str]] = {
    "DB_UNAVAILABLE": "the database is not available at the moment; try again",
    "SCHEMA_MISMATCH": "the service is being updated; try again later",
    "CONFIG_MISSING": INTERNAL_MESSAGE,
    "PORT_IN_USE": INTERNAL_MESSAGE,
    "INTERNAL_ERROR": INTERNAL_MESSAGE,
}
# What a client does next, by the hint of a refusal (`find_next_step`): `list <kind>` is how to see what exists.
CLIENT_STEPS: Final[Mapping[str, str]] = {
    **{
        f"list {kind}": f"list them with GET {path}"
        for kind, path in {
            "API key": "/v1/api-keys",
            "actor": "/v1/actors",
            "active actor": "/v1/actors",
            "attachment": "/v1/attachments",
            "batch": "/v1/batches",
            "batch passport version": "/v1/batches/{{battery_batch_id}}/passport-versions",
            "battery": "/v1/batteries",
            "battery product": "/v1/battery-products",
            "compile run": "/v1/compile-runs",
            "document": "/v1/documents",
            "document version": "/v1/documents/{{document_id}}/versions",
            "event": "/v1/audit/events",
            "export": "/v1/passport-versions/{{passport_version_id}}/exports",
            "fact": "/v1/facts",
            "item chunk": "/v1/item-runs",
            "item run": "/v1/item-runs",
            "passport": "/v1/passports",
            "approval": "/v1/approvals",
            "policy": "/v1/policies",
            "role": "/v1/roles",
            "session": "/console/sessions",
            "rule package": "/v1/rule-packages",
            "rule package version": "/v1/rule-packages/{{rule_package_id}}/versions",
            "snapshot": "/v1/snapshots",
            "supplier": "/v1/suppliers",
            "transfer": "/v1/transfers",
            "view grant": "/v1/view-grants",
            "view request": "/v1/view-requests",
            "webhook delivery": "/v1/webhook-deliveries",
            "webhook endpoint": "/v1/webhook-endpoints",
            "webhook subscription": "/v1/webhook-subscriptions",
        }.items()
    },
    "list passport version": (
        "list them with GET /v1/passports/{{passport_id}}/versions; a new version is there when its job has finished"
    ),
    "issue the batch": "issue it with POST /v1/batches/{{battery_batch_id}}:issue",
    "issue the battery": "issue it with POST /v1/item-runs",
    "waive entries": (
        "correct the evidence or the rules and compile again, or waive the entries with "
        "POST /v1/passport-versions/{passport_version_id}:waive"
    ),
}
MAX_PATH_CHARS: Final = 200  # a member's name comes from the sender and may be as long as a body
MAX_PROBLEMS: Final = 100
log = get_logger(__name__)


class RequestTimeout(Refusal):
    """The request took too long."""

    code = "REQUEST_TIMEOUT"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the request took longer than {seconds:g} s",
            fix="send it again with the same Idempotency-Key; if it happens again, send less at once",
        )


def build_error_response(
    code: str,
    message: str,
    details: Mapping[str, object] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> Response:
    """Build an error answer. The status is that of the code unless `status` is set."""
    body = {
        "error": {
            "code": code,
            "message": message,
            "correlation_id": get_correlation_id(),
            "details": dict(details or {}),
        }
    }
    return Response(
        _encode_json(body), status_code=status or CODES[code].http, headers=dict(headers or {}), media_type=JSON
    )


def _encode_json(body: object) -> bytes:
    try:
        return orjson.dumps(body, default=str)
    except TypeError:  # a number above 64 bits or a lone surrogate in the details
        return json.dumps(body, default=str).encode()


def answer_refusal(refusal: Refusal | JobsRefusal) -> Response:
    """Answer a refusal: its sentence and, if there is one, the next step."""
    status = (refusal.http if isinstance(refusal, Refusal) else None) or CODES[refusal.code].http
    headers = _build_headers(refusal, status)
    if refusal.code in PUBLIC_MESSAGES:
        log.error(
            "a request could not be served",
            code=refusal.code,
            reason=refusal.says,
            fix=find_next_step(refusal, OPERATOR_STEPS),
        )
        return build_error_response(refusal.code, PUBLIC_MESSAGES[refusal.code], headers=headers, status=status)
    message = format_refusal(refusal)
    return build_error_response(refusal.code, message, refusal.details, headers=headers, status=status)


def format_refusal(refusal: Refusal | JobsRefusal) -> str:
    """Return the sentence of a refusal and, if there is one, the next step."""
    next_step = find_next_step(refusal, CLIENT_STEPS)
    return refusal.says if next_step is None else f"{refusal.says}; {next_step}"


def _build_headers(refusal: Refusal | JobsRefusal, status: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="bpc"'
    if (seconds := refusal.details.get("retry_after")) is not None:
        headers["Retry-After"] = str(seconds)
    elif status == 503:
        headers["Retry-After"] = "1"
    if refusal.code == "REQUEST_TIMEOUT":
        headers["Connection"] = "close"  # the rest of the body would be read as the next request
    return headers


def answer_validation_errors(problems: Sequence[Mapping[str, Any]]) -> Response:
    """Answer with everything that is wrong with the input; never with the input itself, which may be a secret."""
    items = [
        {"at": _format_path(problem["loc"]), "says": _format_message(problem)} for problem in problems[:MAX_PROBLEMS]
    ]
    return build_error_response("VALIDATION_ERROR", describe_problems(problems), {"problems": items})


def describe_problems(problems: Sequence[Mapping[str, Any]]) -> str:
    """The first three problems of the input in a sentence."""
    summary = "; ".join(f"`{_format_path(each['loc'])}`: {_format_message(each)}" for each in problems[:3])
    more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
    return f"the request is invalid: {summary}{more}"


def _format_path(parts: Sequence[object]) -> str:
    # An unknown member's name is input too.
    return ".".join(str(part) if MEMBER.fullmatch(str(part)) else "…" for part in parts)[:MAX_PATH_CHARS]


def _format_message(problem: Mapping[str, Any]) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")[:500]


def answer_status(status: int, headers: Mapping[str, str] | None) -> Response:
    """What the framework refuses by itself."""
    code, message = ERRORS_BY_STATUS.get(status, ("VALIDATION_ERROR", "the request is not valid"))
    return build_error_response(code, message, headers=headers)


def answer_large_head(max_bytes: int) -> Response:
    """The request line and headers are too large."""
    message = f"the request line and headers have more than {max_bytes:,} bytes; send fewer or shorter ones"
    return build_error_response("HEADERS_TOO_LARGE", message, {"most": max_bytes}, headers={"Connection": "close"})


def answer_not_http() -> Response:
    """Not HTTP."""
    return build_error_response(
        "BAD_REQUEST", "this is not an HTTP request; send HTTP/1.1", headers={"Connection": "close"}
    )


def answer_slow_head(seconds: float) -> Response:
    """The head of a request did not arrive."""
    message = f"the request line and headers did not arrive within {seconds:g} s; send them at once"
    return build_error_response("HEADERS_TIMEOUT", message, headers={"Connection": "close"})


def answer_stopping() -> Response:
    """The service stops before the request is done."""
    message = "the service is stopping; send it again with the same Idempotency-Key"
    return build_error_response("REQUEST_TIMEOUT", message, headers={"Connection": "close", "Retry-After": "1"})


def answer_internal_error() -> Response:
    return build_error_response("INTERNAL_ERROR", INTERNAL_MESSAGE)
