"""The OpenAPI document: committed as it is served, complete for every operation; and a page that loads nothing else."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from bpc.api.http.app import FAMILIES, create_app
from bpc.core.errors import CODES
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import AggregateId, EventId, TenantId, WebhookDeliveryId
from bpc.core.webhooks import TEST_WEBHOOK_TYPE, WEBHOOK_TYPES, WebhookKeys, WebhookMessage, build_headers
from bpc.runtime import clock
from tools.openapi import TARGET, format_document

# JSON Schema 2020-12, and what OpenAPI 3.1 adds to it.
SCHEMA_KEYWORDS = {
    *("$ref", "$defs", "type", "enum", "const", "default", "examples", "title", "description", "deprecated"),
    *("format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "properties", "required"),
    *("additionalProperties", "propertyNames", "minProperties", "maxProperties", "anyOf", "oneOf", "allOf", "not"),
    *("contentMediaType", "contentEncoding", "readOnly", "writeOnly", "discriminator"),
}
SCHEMA_MEMBERS = {"schema", "items", "additionalProperties", "propertyNames", "not"}
DOCUMENT: dict[str, Any] = create_app().openapi()
OPERATIONS = {operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()}


def test_the_committed_document_is_the_one_that_is_served() -> None:
    assert TARGET.read_text() == format_document(), "run `make cases`"


async def test_it_is_served_as_it_is_committed(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/openapi.json")

    assert answer.json() == DOCUMENT


def test_making_it_twice_gives_the_same_bytes() -> None:
    again = create_app().openapi()

    assert orjson.dumps(again) == orjson.dumps(DOCUMENT)


def test_every_route_is_in_it_but_those_of_the_document_itself_and_of_pages() -> None:
    declared = {
        (route.path_format, method.lower())
        for family in FAMILIES
        for route in family.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    documented = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert {path for path, _ in declared - documented} == {
        "/v1/openapi.json",
        "/v1/docs",
        "/v1/docs/{asset}",
        "/log/checkpoint",
        "/log/tile/{path}",
        "/log/timestamp/{path}",
        # Pages for people, and what they are made of: docs/public-page.md describes them.
        "/p/{passport_id}",
        "/p/{passport_id}/v/{passport_version_id}",
        "/p/{passport_id}/v/{passport_version_id}/{file}",
        "/p/{passport_id}/access",
        "/p/{passport_id}/access/page",
        "/p/{passport_id}/access/requests",
        "/p/{passport_id}/access/terms",
        "/page-assets/{name}",
        "/verify",
        "/.well-known/gs1resolver",
        "/01/{digital_link}",
    }


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_an_operation_says_what_it_does_takes_and_gives(name: str) -> None:
    operation = OPERATIONS[name]

    assert re.fullmatch(r"[A-Z][^.]+", operation["summary"]), operation["summary"]
    assert operation["tags"][0] in {tag["name"] for tag in DOCUMENT["tags"]}
    for schema in _list_bodies(operation):
        assert schema != {}, "a model is missing"
        assert schema.get("type") != "object", "a bare object"
    good = [status for status in operation["responses"] if status.startswith("2")]
    assert good, "no success"


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_an_operation_names_its_refusals_and_who_may_call_it(name: str) -> None:
    operation = OPERATIONS[name]

    refusals = {code for code in operation["responses"] if code.startswith(("4", "5"))}
    assert refusals >= {"422", "500", "503"}
    if operation["security"]:
        assert refusals >= {"401", "403", "429"}
        assert operation["x-permission"]
    for status in refusals:
        response = _resolve_component(operation["responses"][status])
        codes = set(response["description"].split(", "))
        assert codes <= set(CODES)
        assert {str(CODES[code].http) for code in codes} == {status}
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorEnvelope"}
        assert set(content["examples"]) == codes
        assert "X-Correlation-Id" in response["headers"]


def test_every_page_of_a_list_takes_the_same_parameters() -> None:
    lists = [one for one in OPERATIONS.values() if _refers(one, "Cursor")]

    assert len(lists) >= 29
    for operation in OPERATIONS.values():
        assert _refers(operation, "Cursor") == _refers(operation, "Limit")
        assert not [one for one in operation.get("parameters", ()) if one.get("name") in {"limit", "cursor"}]
    assert DOCUMENT["components"]["parameters"]["Limit"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 200,
        "default": 50,
        "description": "The largest number of items on the page.",
        "title": "Limit",
    }


def test_the_model_of_a_page_is_named_after_its_list() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    pages = {name for name, schema in schemas.items() if set(schema.get("properties", {})) == {"items", "next_cursor"}}

    assert {"DocumentPage", "JobPage", "PassportPage"} <= pages
    assert [name for name in pages if not name.endswith("Page")] == []
    assert [name for name in schemas if not re.fullmatch("[A-Za-z0-9]+", name)] == []


def test_every_write_takes_the_same_key_and_refuses_it_alike() -> None:
    writes = [one for one in OPERATIONS.values() if _refers(one, "IdempotencyKey")]

    assert len(writes) >= 55
    for operation in writes:
        conflict = _resolve_component(operation["responses"]["409"])
        assert "IDEMPOTENCY_CONFLICT" in conflict["description"]


def test_every_error_that_two_routes_share_is_a_component() -> None:
    repeated = Counter(
        response["description"]
        for operation in OPERATIONS.values()
        for status, response in operation["responses"].items()
        if status.startswith(("4", "5")) and "$ref" not in response
    )

    assert set(repeated.values()) <= {1}
    assert set(DOCUMENT["components"]["responses"]) >= {"NotFound", "Unauthorized", "ValidationError", "WriteConflict"}
    assert set(DOCUMENT["components"]["headers"]) >= {"ETag", "Retry-After", "X-Correlation-Id"}


# What Redocly CLI and Spectral refuse, as far as it can be seen without them; `make api-lint` runs both.


def test_a_schema_has_only_keywords_that_json_schema_knows() -> None:
    for place, schema in _iterate_schemas(DOCUMENT, ""):
        unknown = set(schema) - SCHEMA_KEYWORDS
        assert not unknown, f"{place}: {sorted(unknown)}"


def test_every_example_of_a_schema_is_valid() -> None:
    registry: Registry[Any] = Registry().with_resource("urn:api", DRAFT202012.create_resource(DOCUMENT))
    for place, schema in _iterate_schemas(DOCUMENT, ""):
        validator = Draft202012Validator({"$ref": f"urn:api#{place}"}, registry=registry)
        for example in schema.get("examples", ()):
            assert not [problem.message for problem in validator.iter_errors(example)], place


def test_every_parameter_of_a_path_is_declared_once() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            parameters = [_resolve_component(one) for one in operation.get("parameters", ())]
            names = [(one["in"], one["name"]) for one in parameters]
            assert len(names) == len(set(names)), path
            in_path = [name for where, name in names if where == "path"]
            assert sorted(in_path) == sorted(re.findall(r"\{(\w+)\}", path)), path
            assert all(one["required"] for one in parameters if one["in"] == "path"), path


def test_nothing_in_it_is_unused_and_no_name_is_used_twice() -> None:
    references = set(_list_references(DOCUMENT))
    unused = [
        f"{section}/{name}"
        for section, members in DOCUMENT["components"].items()
        for name in members
        if section != "securitySchemes" and f"#/components/{section}/{name}" not in references
    ]

    assert unused == []
    assert len(OPERATIONS) == sum(len(methods) for methods in DOCUMENT["paths"].values())
    assert DOCUMENT["info"]["license"]["identifier"] == "Apache-2.0"


def _refers(operation: dict[str, Any], parameter: str) -> bool:
    return {"$ref": f"#/components/parameters/{parameter}"} in operation.get("parameters", ())


def _resolve_component(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    *_, section, name = part["$ref"].split("/")
    component: dict[str, Any] = DOCUMENT["components"][section][name]
    return component


def _iterate_schemas(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of the document with its JSON pointer, those inside of others too."""
    if isinstance(value, list):
        for position, child in enumerate(value):
            yield from _iterate_schemas(child, f"{place}/{position}")
    elif isinstance(value, dict):
        for name, child in value.items():
            child_place = f"{place}/{name.replace('~', '~0').replace('/', '~1')}"
            if name in {"example", "examples", "default", "enum", "const"}:
                continue
            if name in SCHEMA_MEMBERS and isinstance(child, dict):
                yield child_place, child
            elif name in {"properties", "schemas", "$defs"} and isinstance(child, dict):
                for member, schema in child.items():
                    yield f"{child_place}/{member}", schema
            elif name in {"anyOf", "oneOf", "allOf", "prefixItems"}:
                for position, schema in enumerate(child):
                    yield f"{child_place}/{position}", schema
            yield from _iterate_schemas(child, child_place)


def test_every_reference_leads_somewhere() -> None:
    for reference in set(_list_references(DOCUMENT)):
        node: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_every_request_has_an_example_to_start_from() -> None:
    for name, operation in OPERATIONS.items():
        for schema in _list_request_schemas(operation):
            schema_text = str(_resolve_schema(schema))
            assert "'examples'" in schema_text or "'uuid'" in schema_text, f"{name}: no example"


def _list_bodies(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _list_request_schemas(operation)
    for status, response in operation["responses"].items():
        if status.startswith("2") and "application/json" in response.get("content", {}):
            content = response["content"]["application/json"]
            # Stored bytes have a format of their own, and pages that describe it.
            if "schema" in content or "304" not in operation["responses"]:
                yield content["schema"]


def _list_request_schemas(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/octet-stream" not in content:  # a file has no members
        yield from (media["schema"] for media in content.values())


def _resolve_schema(schema: Any) -> Any:
    """With everything that it refers to in its place."""
    if isinstance(schema, list):
        return [_resolve_schema(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolve_schema(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return {key: _resolve_schema(child) for key, child in schema.items()}


def _list_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref":
                yield child
            else:
                yield from _list_references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _list_references(child)


async def test_the_page_and_its_parts_are_served_from_here(http: httpx2.AsyncClient) -> None:
    page = await http.get("/v1/docs")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(parts) == 5
    for part in parts:
        assert part.startswith("/v1/")
        assert (await http.get(part)).status_code == 200
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert not re.search(r"<script(?! src=)|<style|\son\w+=|https?://", page.text)


async def test_no_other_file_is_served(http: httpx2.AsyncClient) -> None:
    for name in ("docs.html", "redoc.standalone.js", "__init__.py", "..%2Fapp.py", "%2Fetc%2Fpasswd"):
        assert (await http.get(f"/v1/docs/{name}")).status_code in {404, 422}


def test_our_own_files_ask_no_other_site() -> None:
    for file in (Path(__file__).parents[3] / "src/bpc/api/static").glob("docs.*"):
        assert not re.search(r"https?://", file.read_text())


# Webhooks ------------------------------------------------------------------------------------------------------------


def test_every_type_of_webhook_is_in_it_with_its_headers_and_its_body() -> None:
    webhooks = DOCUMENT["webhooks"]

    assert set(webhooks) == {*WEBHOOK_TYPES.values(), TEST_WEBHOOK_TYPE}
    for name, methods in webhooks.items():
        operation = methods["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        assert body["properties"]["event_type"] == {"type": "string", "const": name}
        assert re.fullmatch(r"[A-Z][^.]+", operation["summary"])
    keys = WebhookKeys(current=b"new", previous=b"old", rotated_at=clock.now())
    headers = build_headers(
        b"{}", webhook_type="x", delivery=WebhookDeliveryId(clock.new_id()), moment=clock.now(), keys=keys
    )
    documented = {part["name"] for part in DOCUMENT["components"]["parameters"].values() if part["in"] == "header"}
    assert set(headers) - {"Content-Type"} <= documented


def test_a_body_that_is_sent_is_one_that_is_documented() -> None:
    subject = {name: str(clock.new_id()) for name in ("passport_id", "battery_product_id")} | {"sku": "A"}
    message = WebhookMessage(
        tenant_id=TenantId(clock.new_id()),
        event_id=EventId(clock.new_id()),
        event_type="QR_GENERATED",
        occurred_at=clock.now(),
        aggregate_type="PassportVersion",
        aggregate_id=AggregateId(clock.new_id()),
        aggregate_version=3,
        payload_canonical=canonical_json.encode({"qr_payload": "BPC:1", **subject}),
    )
    body = DOCUMENT["webhooks"]["passport.version.ready"]["post"]["requestBody"]["content"]["application/json"]

    validator = Draft202012Validator(body["schema"])

    validator.validate(orjson.loads(message.encode_body()))
    assert not validator.is_valid(orjson.loads(message.encode_body()) | {"event_type": "passport.version.active"})
