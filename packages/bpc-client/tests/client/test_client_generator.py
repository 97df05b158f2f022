"""The generator: what an OpenAPI document says becomes Python, and the document in the package is the API's."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from bpc_client import Client, SyncClient
from bpc_client.errors import RETRYABLE
from client_generator import DOCUMENT, FOLDER, PACKAGE, ClientWriter, write_modules

from bpc.core.errors import CODES
from tools.client import format_document


def test_the_document_of_the_package_is_the_one_the_application_serves() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == format_document(), "`make cases` rewrites it; read the diff"


def test_the_modules_here_are_those_of_the_document() -> None:
    modules = write_modules(json.loads(DOCUMENT.read_text(encoding="utf-8")))

    assert {name: (PACKAGE / name).read_text() for name in modules} == modules, "`make cases` writes them"


@pytest.mark.parametrize("client", [Client, SyncClient])
def test_every_operation_is_a_method_with_a_docstring(client: type[Any]) -> None:
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    operations = {each["operationId"] for methods in document["paths"].values() for each in methods.values()}

    assert operations != set()
    assert {name for name in operations if not (getattr(client, name).__doc__ or "").strip()} == set()


def test_the_client_retries_the_codes_that_the_table_calls_retryable() -> None:
    assert {code for code, entry in CODES.items() if entry.retryable} == RETRYABLE


def test_a_wheel_built_from_the_source_distribution_has_the_generated_modules(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory"]
    subprocess.run([*build, tmp_path, "--target", "sdist"], cwd=FOLDER, check=True, capture_output=True)
    [source] = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    [unpacked] = (path for path in tmp_path.iterdir() if path.is_dir())
    assert not (unpacked / "src" / "bpc_client" / "models.py").exists()

    subprocess.run([*build, tmp_path, "--target", "wheel"], cwd=unpacked, check=True, capture_output=True)

    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name, text in write_modules(json.loads(DOCUMENT.read_text(encoding="utf-8"))).items():
            assert archive.read(f"bpc_client/{name}").decode() == text


def make_writer(**schemas: Any) -> ClientWriter:
    return ClientWriter({"paths": {}, "components": {"schemas": schemas}})


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "string", "format": "uuid"}, "UUID"),
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "integer"}, "int"),
        ({"type": "boolean"}, "bool"),
        ({"enum": ["A", "B"], "type": "string"}, 'Literal["A", "B"]'),
        ({"const": "A"}, 'Literal["A"]'),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"description": "anything"}, "Any"),
        ({"$ref": "#/components/schemas/Thing"}, "Thing"),
        ({"$ref": "#/components/schemas/ThingPage"}, "Page[Thing]"),
    ],
)
def test_a_schema_becomes_a_type(schema: dict[str, Any], kind: str) -> None:
    thing = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    page = {"properties": {"items": {"items": {"$ref": "#/components/schemas/Thing"}}, "next_cursor": {}}}

    assert make_writer(Thing=thing, ThingPage=page).format_type(schema) == kind


def test_a_model_that_contains_itself_is_named_in_quotes() -> None:
    node = {"type": "object", "properties": {"inside": {"$ref": "#/components/schemas/Node"}}, "required": ["inside"]}
    model_writer = make_writer(Node=node)

    model_writer.format_type({"$ref": "#/components/schemas/Node"})

    assert 'class Node(Model):\n    inside: "Node"' in model_writer.write_models()


def test_two_schemas_with_one_short_name_get_different_class_names() -> None:
    thing = {"type": "object", "properties": {}}
    model_writer = make_writer(bpc__api__routes__jobs__Thing=thing, bpc__api__routes__audit__Thing=thing)

    kinds = {
        model_writer.format_type({"$ref": f"#/components/schemas/bpc__api__routes__{name}__Thing"})
        for name in ("jobs", "audit")
    }

    assert kinds == {"JobsThing", "AuditThing"}


def test_an_unknown_schema_raises_an_error() -> None:
    with pytest.raises(NotImplementedError, match="a schema of type matrix"):
        make_writer().format_type({"type": "matrix"})
