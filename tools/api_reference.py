"""Write `docs/api-reference.md`: every route and model of `docs/openapi.yaml`, for people."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

DOCS: Final = Path(__file__).parent.parent / "docs"
SOURCE: Final = DOCS / "openapi.yaml"
TARGET: Final = DOCS / "api-reference.md"
INTRODUCTION: Final = """\
# API reference

<!-- Made by tools/api_reference.py from docs/openapi.yaml; `make cases` rewrites it. -->

Every route, what it takes and what it answers. [The API](api.md) is the guide, with the meaning of each error;
[openapi.yaml](openapi.yaml) is the same for programs, and a running service has it at `/v1/docs`, to try it out.

A route needs the permission it names, any key, or nothing. Every request that changes something has a header
`Idempotency-Key`. Every answer has `X-Correlation-Id`. Lists are paged: they take `limit` and `cursor`, and answer with
`next_cursor`.

*Client* is the method of the [Python client](client.md), where `bpc` is a `Client` or a `SyncClient`; `…` stands for
arguments that have names. [Other clients](generated-clients.md) have methods of the same names.

Not repeated below is what nearly every route can refuse with: {everywhere}.
"""
PAGED: Final = {"limit", "cursor", "Idempotency-Key"}
EVERYWHERE: Final = (
    "UNAUTHORIZED",
    "API_KEY_REVOKED",
    "FORBIDDEN",
    "VALIDATION_ERROR",
    "REQUEST_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "REQUEST_TIMEOUT",
    "DB_UNAVAILABLE",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
)

Json = Mapping[str, Any]


def format_page(document: Json) -> str:
    """The page."""
    return "\n".join(_iterate_lines(document)) + "\n"


def _iterate_lines(document: Json) -> Iterator[str]:
    yield INTRODUCTION.format(everywhere=", ".join(f"`{code}`" for code in EVERYWHERE))
    for tag in document["tags"]:
        yield f"## {tag['name']}\n\n{tag['description']}\n"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag["name"]]:
                    yield from _describe_operation(f"{method.upper()} {path}", _resolve_operation(document, operation))
    yield "## Models\n\nMembers that are not marked as required may be left out of a request.\n"
    for name, schema in document["components"]["schemas"].items():
        yield from _describe_model(name, schema)


def _resolve_operation(document: Json, operation: Json) -> Json:
    """The operation with the shared parameters and responses in their places."""

    def resolve(part: Json) -> Json:
        if "$ref" not in part:
            return part
        *_, section, name = part["$ref"].split("/")
        target: Json = document["components"][section][name]
        return target

    return {
        **operation,
        "parameters": [resolve(parameter) for parameter in operation.get("parameters", [])],
        "responses": {status: resolve(answer) for status, answer in operation["responses"].items()},
    }


def _describe_operation(heading: str, operation: Json) -> Iterator[str]:
    yield f"### `{heading}`\n"
    description = operation.get("description", "").strip()
    summary = operation["summary"].rstrip(".") + "."
    text = description if description.startswith(summary) else f"{summary} {description}".strip()
    yield f"{_escape_markdown(text)}\n"
    yield f"*Needs:* {_describe_permission(operation)}\n"
    yield f"*Client:* `{_format_client_call(operation)}`\n"
    parameters = [
        parameter
        for parameter in operation.get("parameters", [])
        if parameter["name"] not in PAGED
        and (parameter["in"] != "path" or parameter.get("description") or "enum" in parameter["schema"])
    ]
    if parameters:
        yield "| parameter | in | type | |\n| --- | --- | --- | --- |"
        for parameter in parameters:
            name = f"`{parameter['name']}`" + (
                ", required" if parameter.get("required") and parameter["in"] != "path" else ""
            )
            kind, description = _format_type(parameter["schema"]), _format_cell(parameter.get("description", ""))
            yield f"| {name} | {parameter['in']} | {kind} | {description} |"
        yield ""
    if body := operation.get("requestBody"):
        kinds = ", ".join(_list_content_types(body))
        yield f"*Body:* {kinds}\n"
    for status, answer in operation["responses"].items():
        if status.startswith(("2", "3")):
            yield f"*Answers {status}:* {', '.join(_list_content_types(answer)) or 'nothing'}\n"
    refusals = [
        f"`{code}` ({status})"
        for status, answer in operation["responses"].items()
        if not status.startswith(("2", "3"))
        for code in answer["description"].split(", ")
        if code not in EVERYWHERE
    ]
    if refusals:
        yield f"*Refuses with:* {', '.join(refusals)}\n"


def _format_client_call(operation: Json) -> str:
    """The method of the Python client; `…` stands for arguments that have names."""
    parameters = operation["parameters"]
    names = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
    has_more = "requestBody" in operation or len(names) < len(parameters)
    return f"bpc.{operation['operationId']}({', '.join([*names, *(['…'] if has_more else [])])})"


def _describe_permission(operation: Json) -> str:
    if permission := operation.get("x-permission"):
        return f"`{permission}`"
    return "a key" if operation.get("security", True) else "nothing"


def _list_content_types(carrier: Json) -> Iterator[str]:
    for kind, content in carrier.get("content", {}).items():
        schema = content.get("schema", {})
        yield _format_type(schema) if kind == "application/json" and schema else f"`{kind}`"


def _describe_model(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}\n"
    if description := schema.get("description"):
        yield f"{_escape_markdown(description)}\n"
    members = schema.get("properties", {})
    if not members:
        yield f"{_format_type({key: value for key, value in schema.items() if key != 'title'})}\n"
        return
    required = set(schema.get("required", ()))
    yield "| member | type | |\n| --- | --- | --- |"
    for member, member_schema in members.items():
        mark = ", required" if member in required else ""
        description = _format_cell(member_schema.get("description", ""))
        yield f"| `{member}`{mark} | {_format_type(member_schema)} | {description} |"
    yield ""


def _format_type(schema: Json) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(dict.fromkeys(_format_type(choice) for choice in choices))
    return _format_plain_type(schema)


def _format_plain_type(schema: Json) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_format_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_format_type(schema['additionalProperties'])}"
    return str(schema.get("format", kind)) if kind == "string" else str(kind)


def _format_cell(description: str) -> str:
    return _escape_markdown(" ".join(description.split())).replace("|", "\\|")


def _escape_markdown(text: str) -> str:
    """`said` without anything that Markdown would take for a tag."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def load_document() -> Json:
    document: Json = yaml.load(SOURCE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return document


def main() -> None:
    TARGET.write_text(format_page(load_document()), encoding="utf-8")


if __name__ == "__main__":
    main()
