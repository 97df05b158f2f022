"""The client is what the API's document says now: `make cases` renews it."""

from typing import Any

import pytest

from bpc.client import Client
from bpc.client.errors import RETRYABLE
from bpc.core.errors import CODES
from tools.client import FOLDER, Writer, document, written


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return document()


def test_the_files_are_what_the_document_makes(now: dict[str, Any]) -> None:
    made = written(now)

    assert {name: (FOLDER / name).read_text() for name in made} == made, "`make cases` renews them; read the diff"


def test_every_operation_is_a_method_that_says_what_it_does(now: dict[str, Any]) -> None:
    operations = {each["operationId"] for methods in now["paths"].values() for each in methods.values()}

    assert operations != set()
    assert {name for name in operations if not (getattr(Client, name).__doc__ or "").strip()} == set()


def test_what_the_client_sends_again_is_what_the_table_calls_retryable() -> None:
    assert {code for code, known in CODES.items() if known.retryable} == RETRYABLE


# The tool itself


def writer(**schemas: Any) -> Writer:
    return Writer({"paths": {}, "components": {"schemas": schemas}})


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "string", "format": "uuid"}, "UUID"),
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "integer"}, "int"),
        ({"type": "boolean"}, "bool"),
        ({"enum": ["A", "B"], "type": "string"}, "Literal['A', 'B']"),
        ({"const": "A"}, "Literal['A']"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"description": "anything"}, "Any"),
        ({"$ref": "#/components/schemas/Thing"}, "Thing"),
        ({"$ref": "#/components/schemas/Page_Thing_"}, "Page[Thing]"),
    ],
)
def test_a_schema_is_a_type(schema: dict[str, Any], kind: str) -> None:
    thing = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    page = {"properties": {"items": {"items": {"$ref": "#/components/schemas/Thing"}}, "next_cursor": {}}}

    assert writer(Thing=thing, Page_Thing_=page).type_of(schema) == kind


def test_a_model_that_holds_itself_is_named_in_quotes() -> None:
    node = {"type": "object", "properties": {"inside": {"$ref": "#/components/schemas/Node"}}, "required": ["inside"]}
    made = writer(Node=node)

    made.type_of({"$ref": "#/components/schemas/Node"})

    assert 'class Node(Model):\n    inside: "Node"' in made.models()


def test_names_that_two_modules_use_stay_apart() -> None:
    thing = {"type": "object", "properties": {}}
    made = writer(bpc__api__routes__jobs__Thing=thing, bpc__api__routes__audit__Thing=thing)

    kinds = {
        made.type_of({"$ref": f"#/components/schemas/bpc__api__routes__{name}__Thing"}) for name in ("jobs", "audit")
    }

    assert kinds == {"JobsThing", "AuditThing"}


def test_what_it_does_not_know_stops_it() -> None:
    with pytest.raises(NotImplementedError, match="a schema of type matrix"):
        writer().type_of({"type": "matrix"})
