"""The JSON Schemas of documents over HTTP: for everybody, and those that documents are read by."""

import httpx2
import jsonschema
import pytest

from bpc.core.documents.json_schema import KINDS, schema_of


@pytest.mark.parametrize("kind", KINDS)
async def test_the_schema_of_a_kind_needs_no_key(http: httpx2.AsyncClient, kind: str) -> None:
    answer = await http.get(f"/v1/schemas/{kind}")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/schema+json")
    assert answer.json() == schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(answer.json())


async def test_a_kind_without_facts_has_no_schema(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/schemas/OTHER")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
