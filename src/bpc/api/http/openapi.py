"""The OpenAPI document: the permission, the errors and the headers of every route, and the whole document.

The first sentence of a route's docstring is its summary. If there are more sentences, the docstring is its description.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from bpc.api.http.models import ErrorEnvelope
from bpc.api.http.multipart import MULTIPART
from bpc.api.http.openapi_components import WRITE_ERRORS, iterate_operations, move_shared_parts, name_pages
from bpc.api.http.openapi_webhooks import build_webhook_parameters, build_webhooks
from bpc.core.errors import CODES
from bpc.core.formats.file_types import UNKNOWN

IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "Chosen by the sender, new for every new request. The same key gets the first answer again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]{1,200}$"},
}
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "bpc_<prefix>_<secret>",
    "description": "An API key, created with `bpc apikeys create` or POST /v1/api-keys.",
}
GRANT_CODE: Final = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "bpg_<prefix>_<secret>",
    "description": "The code of a view grant, made with `bpc grants create` or POST /v1/view-grants.",
}
SECURITY_BY_KIND: Final[Mapping[str, list[dict[str, list[str]]]]] = {"open": [], "granted": [{"grantCode": []}]}
LICENSE: Final = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
HEADERS: Final = {
    "X-Correlation-Id": {
        "description": "Identifies this request in our logs: the UUID that was sent in this header, or a new one.",
        "schema": {"type": "string", "format": "uuid"},
    },
    "ETag": {
        "description": "The SHA-256 of the bytes in hex, quoted. Sent as `If-None-Match`, it avoids a second download.",
        "schema": {"type": "string", "pattern": '^"[0-9a-f]{64}"$'},
    },
    "Retry-After": {
        "description": "Seconds to wait before the request is sent again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "X-Waived-Entries": {
        "description": "How many compliance entries FAIL and WARN of the version are waived now, of all its fields.",
        "schema": {"type": "integer", "minimum": 0},
    },
}
TAGS: Final = {
    "Documents": "Files of suppliers, stored unchanged.",
    "Suppliers": "Who sends documents: how they write numbers, whom to believe first, what their columns mean.",
    "Attachments": "Files that stand behind data points of products.",
    "Facts": "Statements that were read from documents.",
    "Snapshots": "Collections of facts, sealed for compiling.",
    "Rules": "Packages of rules: checked, tested, published.",
    "Battery products": "The products that passports are for.",
    "Batches": "Batteries of a product that were made together.",
    "Batch passports": "The passport of a batch, which its batteries lie below.",
    "Batteries": "Single batteries: registered, found, and what becomes of them.",
    "Transfers": "Batteries that go from one tenant to another: offered, accepted, signed for by both.",
    "Readings": "What single batteries were read out to, in time.",
    "Item runs": "Passports of single batteries, issued in bulk.",
    "Battery passports": "The passport of one battery: views, payload, bundle, versions.",
    "Passports": "The passport of a product, and requests to compile a version of it.",
    "Passport versions": "Compiled versions: activate, revoke, replay.",
    "Waivers": "Compliance entries of a version that do not block its activation.",
    "Artifacts": "The stored bytes of a version: payload, proof, receipt, QR code, bundle, views.",
    "Bulk compiles": "Passports of many products at once, with a report for each.",
    "Readiness": "What products still need, and what would change. Nothing is stored.",
    "Exports": "Versions in other formats: PDF, JSON-LD, XML, data points.",
    "Status": "What became of issued passports: signed lists and statements, for everybody.",
    "Jobs": "Background jobs.",
    "Audit": "Everything that happened, in hash chains that reveal any change.",
    "Access": "Actors, roles, API keys and policies.",
    "View grants": "Who outside of the tenant may see more of its passports, and what they read.",
    "Granted views": "What the code of a view grant opens.",
    "Approvals": "Actions that wait for a second person.",
    "Tenant": "What a tenant decides for itself.",
    "Signing keys": "The public keys of the keys that sign passports.",
    "Webhooks": "Notifications about events.",
    "GraphQL": "The same data, in the shape of a query.",
    "Health": "Health and metrics for operators.",
}
COMMON_ERRORS: Final = ("VALIDATION_ERROR", "INTERNAL_ERROR", "DB_UNAVAILABLE", "REQUEST_TIMEOUT")
GRANT_ERRORS: Final = ("UNAUTHORIZED", "FORBIDDEN", "RATE_LIMITED")
KEY_ERRORS: Final = ("UNAUTHORIZED", "API_KEY_REVOKED", "FORBIDDEN", "RATE_LIMITED")
BODY_ERRORS: Final = ("REQUEST_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE")
EXAMPLE_ID: Final = "b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4"

SCHEMAS: Final = "#/components/schemas/"
ENVELOPE: Final = {"$ref": f"{SCHEMAS}ErrorEnvelope"}

FILE_SCHEMA: Final = {"type": "string", "format": "binary", "description": "The bytes of the file."}
FILE_FORM: Final = {
    "type": "object",
    "title": "FileForm",
    "description": "A form with one file. Parameters of the query may be its other fields.",
    "properties": {"file": FILE_SCHEMA},
    "required": ["file"],
}
FILE_BODY: Final = {
    "required": True,
    "description": "The file: raw bytes, or a form with one file and the parameters of the query as fields.",
    "content": {
        UNKNOWN: {"schema": FILE_SCHEMA},
        MULTIPART: {"schema": {"$ref": "#/components/schemas/FileForm"}},
    },
}


def build_openapi_extra(
    kind: str, path: str, permission: str, errors: Sequence[str], *, takes_file: bool = False
) -> dict[str, Any]:
    """Return `openapi_extra` of a route, and under `responses` its errors by status."""
    codes = [*COMMON_ERRORS, *errors]
    if kind == "granted":
        codes += GRANT_ERRORS
    elif kind != "open":
        codes += KEY_ERRORS
    if kind in {"write", "ask"}:
        codes += BODY_ERRORS
    if kind == "write":
        codes += WRITE_ERRORS
    if "{" in path:
        codes.append("NOT_FOUND")
    extra: dict[str, Any] = {"responses": _group_by_status(codes)}
    extra["security"] = SECURITY_BY_KIND.get(kind, [{"bearerAuth": []}])
    if permission:
        extra["x-permission"] = permission
    if kind == "write":
        extra["parameters"] = [IDEMPOTENCY_KEY]
    if takes_file:
        extra["requestBody"] = FILE_BODY
    return extra


def _group_by_status(codes: Sequence[str]) -> dict[int | str, dict[str, Any]]:
    responses: dict[int | str, dict[str, Any]] = {}
    for status in sorted({CODES[code].http for code in codes}):
        status_codes = sorted({code for code in codes if CODES[code].http == status})
        examples = {code: {"$ref": f"#/components/examples/{code}"} for code in status_codes}
        responses[status] = {
            "description": ", ".join(status_codes),
            # A reference and not the model: FastAPI would make a validator of it for each error of each route.
            "content": {"application/json": {"examples": examples, "schema": ENVELOPE}},
        }
    return responses


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application; it is built once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        document["info"]["license"] = LICENSE
        document["servers"] = [{"url": "/"}]
        for operation in iterate_operations(document):
            _summarise(operation)
            _add_headers(operation)
        parts = document.setdefault("components", {"schemas": {}})
        name_pages(document)
        schemas = {**parts["schemas"], **_build_error_schemas(), "FileForm": FILE_FORM}
        parts["schemas"] = dict(sorted(schemas.items()))
        parts["headers"] = HEADERS
        parts["examples"] = {code: {"value": _make_example(code)} for code in sorted(_collect_codes(document))}
        parts["securitySchemes"] = {"bearerAuth": BEARER, "grantCode": GRANT_CODE}
        move_shared_parts(document)
        parts["parameters"] |= build_webhook_parameters()
        document["webhooks"] = build_webhooks()
        used_tags = {tag for operation in iterate_operations(document) for tag in operation["tags"]}
        document["tags"] = [{"name": name, "description": says} for name, says in TAGS.items() if name in used_tags]
        app.openapi_schema = document
    return app.openapi_schema


def _build_error_schemas() -> dict[str, Any]:
    schema = ErrorEnvelope.model_json_schema(ref_template=f"{SCHEMAS}{{model}}")
    return {**schema.pop("$defs"), ErrorEnvelope.__name__: schema}


def _summarise(operation: dict[str, Any]) -> None:
    text = " ".join(operation.get("description", "").split())
    first, more, _ = text.partition(". ")
    operation["summary"] = first.removesuffix(".")
    if not more:
        operation.pop("description", None)


def _add_headers(operation: dict[str, Any]) -> None:
    is_stored = "304" in operation["responses"]
    for status, response in operation["responses"].items():
        names = ["X-Correlation-Id"]
        if status in {"429", "503"}:
            names.append("Retry-After")
        if is_stored and status in {"200", "304"}:
            names.append("ETag")
        references = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        response["headers"] = references | response.get("headers", {})


def _collect_codes(document: dict[str, Any]) -> set[str]:
    return {
        code
        for operation in iterate_operations(document)
        for response in operation["responses"].values()
        for code in response.get("content", {}).get("application/json", {}).get("examples", {})
        if code in CODES
    }


def _make_example(code: str) -> dict[str, Any]:
    text = code.replace("_", " ").lower()
    return {"error": {"code": code, "message": f"{text}: a sentence that says more", "correlation_id": EXAMPLE_ID}}
