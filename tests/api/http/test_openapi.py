"""The OpenAPI document: committed as it is served, complete for every operation; and a page that loads nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from fastapi.routing import APIRoute

from bpc.api.http.app import FAMILIES, create_app
from bpc.core.errors import CODES
from tools.openapi import TARGET, format_document

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


def test_every_route_is_in_it_but_those_of_the_document_itself() -> None:
    declared = {
        (route.path_format, method.lower())
        for family in FAMILIES
        for route in family.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    documented = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert {path for path, _ in declared - documented} == {"/v1/openapi.json", "/v1/docs", "/v1/docs/{asset}"}


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
        response = operation["responses"][status]
        codes = set(response["description"].split(", "))
        assert codes <= set(CODES)
        assert {str(CODES[code].http) for code in codes} == {status}
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorEnvelope"}
        assert set(content["examples"]) == codes
        assert "X-Correlation-Id" in response["headers"]


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
