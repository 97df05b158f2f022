"""The OpenAPI document: what every route says beside its models (who may call it, how it may refuse), and the whole.

A route's docstring is its summary: the first sentence, or the only one. Further sentences are its description.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from bpc.api.models import ErrorEnvelope
from bpc.core.errors import CODES

IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "Chosen by the sender, new for every new request. Sent again, it gives the first answer again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]{1,200}$"},
}
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "bpc_<prefix>_<secret>",
    "description": "An API key, made with `bpc apikey create` or by POST /v1/api-keys.",
}
HEADERS: Final = {
    "X-Correlation-Id": {
        "description": "Names this request in our logs: the UUID that was sent under this name, or a new one.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "Retry-After": {
        "description": "Seconds after which it is worth another try.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
TAGS: Final = {
    "Documents": "What suppliers sent, as they sent it.",
    "Facts": "What was read from documents.",
    "Snapshots": "Facts put together, and sealed.",
    "Rules": "Packages of rules: checked, tested, published.",
    "Battery products": "What passports are about.",
    "Passports": "A product's passport, from the request to compile it on.",
    "Passport versions": "What was compiled, signed, activated, revoked.",
    "Artifacts": "The stored bytes of a version, and what is made of them.",
    "Bulk compiles": "Passports of many products at once, with a report for each.",
    "Exports": "Versions in other forms: PDF, JSON-LD, XML, data points.",
    "Jobs": "What is done beside requests.",
    "Audit": "Everything that happened, in chains that show a change.",
    "Access": "Actors, roles, API keys and policies.",
    "Signing keys": "Public keys that passports are signed with.",
    "Webhooks": "Who is told of events.",
    "GraphQL": "The same data, in the shape that is asked for.",
    "Health": "For whoever keeps this running.",
}
ALWAYS: Final = ("VALIDATION_ERROR", "INTERNAL_ERROR", "DB_UNAVAILABLE", "REQUEST_TIMEOUT")
WITH_A_KEY: Final = ("UNAUTHORIZED", "API_KEY_REVOKED", "FORBIDDEN", "RATE_LIMITED")
WITH_A_BODY: Final = ("REQUEST_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
OF_WRITES: Final = ("CONFLICT", "IDEMPOTENCY_CONFLICT", "EVENT_VERSION_CONFLICT")
AN_ID: Final = "b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4"
METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})


def documented(kind: str, path: str, permission: str, errors: Sequence[str]) -> dict[str, Any]:
    """What `openapi_extra` holds, and under `responses` the refusals by status."""
    codes = [*ALWAYS, *errors]
    if kind != "open":
        codes += WITH_A_KEY
    if kind in {"write", "ask"}:
        codes += WITH_A_BODY
    if kind == "write":
        codes += OF_WRITES
    if "{" in path:
        codes.append("NOT_FOUND")
    extra: dict[str, Any] = {"responses": _by_status(codes)}
    extra["security"] = [{"bearerAuth": []}] if kind != "open" else []
    if permission:
        extra["x-permission"] = permission
    if kind == "write":
        extra["parameters"] = [IDEMPOTENCY_KEY]
    return extra


def _by_status(codes: Sequence[str]) -> dict[int | str, dict[str, Any]]:
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({CODES[code].http for code in codes}):
        named = sorted({code for code in codes if CODES[code].http == status})
        examples = {code: {"$ref": f"#/components/examples/{code}"} for code in named}
        found[status] = {
            "description": ", ".join(named),
            "model": ErrorEnvelope,
            "content": {"application/json": {"examples": examples}},
        }
    return found


def document_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        made["servers"] = [{"url": "/"}]
        for operation in _operations(made):
            _summarise(operation)
            _add_headers(operation)
        parts = made.setdefault("components", {})
        parts["headers"] = HEADERS
        parts["examples"] = {code: {"value": _example(code)} for code in sorted(_codes(made))}
        parts["securitySchemes"] = {"bearerAuth": BEARER}
        used = {tag for operation in _operations(made) for tag in operation["tags"]}
        made["tags"] = [{"name": name, "description": says} for name, says in TAGS.items() if name in used]
        app.openapi_schema = made
    return app.openapi_schema


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        for method, operation in path.items():
            if method in METHODS:
                yield operation


def _summarise(operation: dict[str, Any]) -> None:
    said = " ".join(operation.get("description", "").split())
    first, more, _ = said.partition(". ")
    operation["summary"] = first.removesuffix(".")
    if not more:
        operation.pop("description", None)


def _add_headers(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        names = ["X-Correlation-Id", *(["Retry-After"] if status in {"429", "503"} else [])]
        shown = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        response["headers"] = shown | response.get("headers", {})


def _codes(document: dict[str, Any]) -> set[str]:
    return {
        code
        for operation in _operations(document)
        for response in operation["responses"].values()
        for code in response.get("content", {}).get("application/json", {}).get("examples", {})
        if code in CODES
    }


def _example(code: str) -> dict[str, Any]:
    says = code.replace("_", " ").lower()
    return {"error": {"code": code, "message": f"{says}: a sentence that says more", "correlation_id": AN_ID}}
