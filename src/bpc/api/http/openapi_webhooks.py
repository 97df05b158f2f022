"""The `webhooks` of the OpenAPI document: for each type of event the headers and the body that an endpoint gets.

What is particular to a type is its payload; a few members of it are described, and there may be more.
"""

from collections.abc import Mapping
from typing import Any, Final

from bpc.core.webhooks import TEST_WEBHOOK_TYPE, WEBHOOK_TYPES

TEXT: Final = {"type": "string"}
UUID_TEXT: Final = {"type": "string", "format": "uuid"}
TIME: Final = {"type": "string", "format": "date-time"}
NUMBER: Final = {"type": "integer"}
UUID_OR_NULL: Final = {"type": ["string", "null"], "format": "uuid"}
TEXT_OR_NULL: Final = {"type": ["string", "null"]}
TIME_OR_NULL: Final = {"type": ["string", "null"], "format": "date-time"}
NUMBER_OR_NULL: Final = {"type": ["integer", "null"]}
UNIX_SECONDS: Final = {"type": "string", "pattern": "^[0-9]+$"}
SIGNATURE_DESCRIPTION: Final = (
    "`v1,` and base64 of the HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`; two of them, separated by a "
    "space, for a day after the secret was rotated."
)
LIST: Final = {"type": "array", "items": {"type": "object"}}

SUBJECT: Final = {"passport_id": UUID_TEXT, "battery_product_id": UUID_TEXT, "sku": TEXT}
FAILURE: Final = {"job_id": UUID_TEXT, "code": TEXT, "message": TEXT}
EXPORT: Final = {"export_id": UUID_TEXT, "format": TEXT, "audience": TEXT}
# By type of event: when it is sent, what the aggregate is, and members of the payload that are always there.
WEBHOOKS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "document.version.validated": (
        "A document's facts were read",
        "DocumentVersion",
        {"document_id": UUID_TEXT, "fact_count": NUMBER, "new_fact_count": NUMBER},
    ),
    "document.version.rejected": (
        "A document could not be read",
        "DocumentVersion",
        {"document_id": UUID_TEXT, "problems": LIST, "problems_total": NUMBER},
    ),
    "document.parse.failed": (
        "The job that reads a document failed",
        "DocumentVersion",
        {"document_id": UUID_TEXT, **FAILURE},
    ),
    "document.ingest.failed": ("A file could not be fetched as a version of a document", "Document", FAILURE),
    "snapshot.build.failed": ("The facts of a snapshot could not be built", "DataSnapshot", FAILURE),
    "rules.version.published": (
        "A version of a rule package was published",
        "RulePackageVersion",
        {"rule_package_id": UUID_TEXT, "version": NUMBER, "dsl_sha256": TEXT, "tests_sha256": TEXT},
    ),
    "rules.tests.failed": (
        "The tests of a version of a rule package failed",
        "RulePackageVersion",
        {"rule_package_id": UUID_TEXT, "version": NUMBER, "run_id": UUID_TEXT, "cases": NUMBER, "failed": NUMBER},
    ),
    "rules.tests.aborted": (
        "The tests of a version of a rule package ended without a result",
        "RulePackageVersion",
        {"rule_package_id": UUID_TEXT, "version": NUMBER, "run_id": UUID_TEXT, **FAILURE},
    ),
    "passport.compile.failed": (
        "A passport version that was requested will not be there",
        "Passport",
        {**SUBJECT, "passport_version_id": UUID_TEXT, **FAILURE},
    ),
    "passport.sign.failed": ("A passport version could not be signed", "PassportVersion", {**SUBJECT, **FAILURE}),
    "passport.qr.failed": ("A passport version did not get its QR code", "PassportVersion", {**SUBJECT, **FAILURE}),
    "passport.activation.failed": (
        "A passport version that was to be activated when it is ready was not",
        "PassportVersion",
        {**SUBJECT, **FAILURE},
    ),
    "passport.export.ready": (
        "An export of a passport version can be fetched",
        "PassportVersion",
        {**SUBJECT, **EXPORT, "sha256": TEXT, "bytes": NUMBER},
    ),
    "passport.export.failed": (
        "An export of a passport version failed",
        "PassportVersion",
        {**SUBJECT, **EXPORT, **FAILURE},
    ),
    "passport.version.signed": (
        "A passport version was signed",
        "PassportVersion",
        {**SUBJECT, "signing_key_id": TEXT, "receipt_hash": TEXT},
    ),
    "passport.version.ready": (
        "A passport version has its QR code",
        "PassportVersion",
        {**SUBJECT, "qr_payload": TEXT},
    ),
    "passport.version.waived": (
        "Compliance entries of a passport version were waived",
        "PassportVersion",
        {**SUBJECT, "reason": TEXT, "waived": LIST},
    ),
    "passport.version.active": (
        "A passport version became the active one",
        "PassportVersion",
        {**SUBJECT, "superseded_passport_version_id": UUID_OR_NULL},
    ),
    "passport.version.revoked": (
        "A passport version was revoked",
        "PassportVersion",
        {**SUBJECT, "reason": TEXT, "was": TEXT},
    ),
    "passport.version.mismatch": (
        "Compiling a passport version again gave a different result",
        "PassportVersion",
        {**SUBJECT, "failed": {"type": "array", "items": TEXT}, "detail": TEXT},
    ),
    "compile_run.finished": (
        "Every row of a bulk compile has ended",
        "CompileRun",
        {
            "rule_package_version_id": UUID_TEXT,
            "rows": NUMBER,
            "counts": {"type": "object", "additionalProperties": NUMBER},
            "fail_count": NUMBER_OR_NULL,
            "warn_count": NUMBER_OR_NULL,
            "cancelled": {"type": "boolean"},
        },
    ),
    "battery.passports.issued": (
        "The passports of up to 1,024 batteries were issued",
        "ItemBatch",
        {
            "item_run_id": UUID_TEXT,
            "model_version_id": UUID_TEXT,
            "count": NUMBER,
            "refused": NUMBER,
            "root": TEXT,
            "pack_sha256": TEXT_OR_NULL,
        },
    ),
    "api_key.created": (
        "An API key was issued",
        "ApiKey",
        {"actor_id": UUID_TEXT, "key_prefix": TEXT, "label": TEXT_OR_NULL},
    ),
    "api_key.changed": (
        "An API key was rotated",
        "ApiKey",
        {"rotated_to": UUID_TEXT, "expires_at": TIME_OR_NULL},
    ),
    "api_key.revoked": ("An API key was revoked", "ApiKey", {"key_prefix": TEXT}),
    "signing_key.created": (
        "A signing key was added, to the installation or to the tenant",
        "SigningKey",
        {"key_id": TEXT, "public_key": TEXT},
    ),
    "signing_key.changed": (
        "A signing key was retired or reported as compromised",
        "SigningKey",
        {"key_id": TEXT, "status": TEXT},
    ),
    "view.requested": (
        "Somebody asked on a public page to see more of a passport",
        "ViewRequest",
        {"passport_id": UUID_TEXT, "battery_id": UUID_OR_NULL, "audience": TEXT},
    ),
    "webhook.endpoint.disabled": (
        "An endpoint was disabled",
        "WebhookEndpoint",
        {"url": TEXT, "reason": TEXT, "failing_since": TIME_OR_NULL, "failed_attempts": NUMBER},
    ),
    "webhook.endpoint.enabled": (
        "An endpoint was enabled again",
        "WebhookEndpoint",
        {"url": TEXT, "reason": TEXT_OR_NULL, "disabled_at": TIME},
    ),
    TEST_WEBHOOK_TYPE: ("A test that was requested", "WebhookEndpoint", {}),
}
assert WEBHOOKS.keys() == {*WEBHOOK_TYPES.values(), TEST_WEBHOOK_TYPE}

HEADERS: Final = (
    ("webhook-id", True, "The delivery; the same for all its attempts.", UUID_TEXT),
    ("webhook-timestamp", True, "When this attempt was made, in Unix seconds.", UNIX_SECONDS),
    ("webhook-signature", True, SIGNATURE_DESCRIPTION, TEXT),
    ("X-BPC-Event-Type", True, "As `event_type` in the body.", TEXT),
    ("X-BPC-Delivery-Id", True, "As `webhook-id`.", UUID_TEXT),
    ("X-BPC-Timestamp", True, "As `webhook-timestamp`.", UNIX_SECONDS),
    ("X-BPC-Signature", True, "`sha256=` and hex of the HMAC-SHA256 over the body.", TEXT),
    ("X-BPC-Signature-Previous", False, "The same with the previous secret, for a day after a rotation.", TEXT),
)
ANSWERS: Final = {
    "2XX": {"description": "The webhook was taken."},
    "410": {"description": "Nobody is there any more: the endpoint is disabled."},
    "4XX": {"description": "It is final, unless the endpoint has `retry_client_errors`. 408, 425 and 429 are retried."},
    "5XX": {"description": "It is retried for three days."},
}


def build_webhooks() -> dict[str, Any]:
    """The member `webhooks` of the document."""
    return {name: {"post": _build_operation(name)} for name in WEBHOOKS}


def build_webhook_parameters() -> dict[str, Any]:
    """The headers of every webhook, for `components.parameters`."""
    return {
        f"Webhook-{name}": {
            "name": name,
            "in": "header",
            "required": is_required,
            "description": description,
            "schema": schema,
        }
        for name, is_required, description, schema in HEADERS
    }


def _build_operation(webhook_type: str) -> dict[str, Any]:
    summary, aggregate_type, members = WEBHOOKS[webhook_type]
    return {
        "tags": ["Webhooks"],
        "summary": summary,
        "operationId": f"on_{webhook_type.replace('.', '_')}",
        "security": [],
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in build_webhook_parameters()],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _build_body(webhook_type, aggregate_type, members)}},
        },
        "responses": ANSWERS,
    }


def _build_body(webhook_type: str, aggregate_type: str, members: Mapping[str, Any]) -> dict[str, Any]:
    data = {
        "aggregate_type": {"type": "string", "const": aggregate_type},
        "aggregate_id": UUID_TEXT,
        "aggregate_version": {"type": "integer", "minimum": 1},
        "payload": _build_object(members),
    }
    body = {
        "event_type": {"type": "string", "const": webhook_type},
        "event_id": UUID_TEXT,
        "occurred_at": TIME,
        "tenant_id": UUID_TEXT,
        "data": _build_object(data),
    }
    return _build_object(body)


def _build_object(members: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(members), "required": list(members)}
