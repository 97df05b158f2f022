# ruff: noqa: INP001 (beside the package, not in it)
"""The client's models and operations, written from the API's OpenAPI document.

    openapi.json ─► ClientWriter ─► models.py, operations.py, sync_operations.py

An operation becomes a method with its name. Ids of the path are positional arguments; members of the body and
parameters of the query are keyword arguments. An answer becomes a model. A schema that this module does not know
raises NotImplementedError: nothing is guessed.

Only the standard library is imported: this runs when the package is built.
"""

import json
import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

FOLDER: Final = Path(__file__).resolve().parent
DOCUMENT: Final = FOLDER / "openapi.json"
PACKAGE: Final = FOLDER / "src" / "bpc_client"
GENERATED_NOTE: Final = "Generated from openapi.json when the package is built; do not edit."
JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
CLASS_HEAD: Final = '''\
class {name}({base}):
    """The operations, in the order of the OpenAPI document.

    Lists take `limit`, the largest number of items on a page, and `cursor`, the `next_cursor` of the page before.
    Writes take an `idempotency_key`; without one the client makes a new key.
    """
'''
CLIENT_HEADERS: Final = frozenset({"idempotency-key", "if-none-match"})  # headers that the client fills in
PLAIN_TYPES: Final = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
STRING_FORMATS: Final = {"uuid": "UUID", "date-time": "datetime"}
PAGING: Final = frozenset({"limit", "cursor"})  # explained once, in the docstring of the class
WIDTH: Final = 100
IMPORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "datetime": ("datetime",),
    "typing": ("Any", "Literal", "TypeAlias"),
    "uuid": ("UUID",),
    "bpc_client.base_models": ("Model", "Page", "StoredBytes"),
    "bpc_client.calls": ("Calls", "SyncCalls", "drop_missing", "new_idempotency_key", "quote_path", "quote_path_part"),
}


def generate(document_path: Path = DOCUMENT, target: Path = PACKAGE) -> list[Path]:
    """Write the generated modules; files that are up to date are left alone. Returns all of their paths."""
    paths = []
    for name, text in write_modules(json.loads(document_path.read_text(encoding="utf-8"))).items():
        path = target / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def write_modules(openapi: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each generated module by its file name."""
    writer = ClientWriter(openapi)
    operations = writer.write_operations(is_sync=False)
    sync_operations = writer.write_operations(is_sync=True)
    return {
        "models.py": writer.write_models(),
        "operations.py": operations,
        "sync_operations.py": sync_operations,
    }


@dataclass(slots=True)
class Argument:
    """One argument of a method."""

    name: str
    type: str
    where: str  # path, query, body, whole body or file
    required: bool
    default: Any = None
    description: str = ""

    @property
    def signature(self) -> str:
        if self.required:
            return f"{self.python_name}: {self.type}"
        kind = self.type if self.default is not None or self.type.endswith("| None") else f"{self.type} | None"
        return f"{self.python_name}: {kind} = {self.default!r}"

    @property
    def python_name(self) -> str:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()
        return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method returns, and the method of `Calls` that reads it."""

    type: str
    call: str
    first_arguments: tuple[str, ...] = ()


@dataclass(slots=True)
class ClientWriter:
    """Writes one document. It collects the models that the operations need, each after those it refers to."""

    document: Mapping[str, Any]
    _models: dict[str, str] = field(default_factory=dict)
    _unfinished: list[str] = field(default_factory=list)

    # Operations

    def write_operations(self, *, is_sync: bool) -> str:
        methods = [self._write_method(*operation, is_sync=is_sync) for operation in self._iterate_operations()]
        head = CLASS_HEAD.format(
            name="SyncOperations" if is_sync else "Operations", base="SyncCalls" if is_sync else "Calls"
        )
        summary = "Every operation of the API, synchronous." if is_sync else "Every operation of the API."
        return self._write_module(summary, head + "\n" + "\n\n".join(methods))

    def _iterate_operations(self) -> Iterator[tuple[str, str, Schema]]:
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                parameters = [self._resolve_reference(parameter) for parameter in operation.get("parameters", ())]
                yield path, method.upper(), {**operation, "parameters": parameters}

    def _write_method(self, path: str, method: str, operation: Schema, *, is_sync: bool) -> str:
        arguments = self._list_arguments(operation)
        answer = self._describe_answer(operation)
        is_idempotent = any(argument["name"] == "Idempotency-Key" for argument in operation.get("parameters", ()))
        signature = ["self", *(argument.signature for argument in arguments if argument.where == "path")]
        by_keyword = [argument.signature for argument in arguments if argument.where != "path"]
        if is_idempotent:
            by_keyword.append("idempotency_key: str | None = None")
        if answer.call == "_request_bytes":
            by_keyword.append("known: StoredBytes | None = None")
        if by_keyword:
            signature += ["*", *by_keyword]
        texts_with_slashes = {
            argument["name"]
            for argument in operation.get("parameters", ())
            if argument["in"] == "path" and argument["schema"].get("format") == "path"
        }
        call_arguments = [*answer.first_arguments, _quote(method), _format_path(path, texts_with_slashes)]
        if query := [argument for argument in arguments if argument.where == "query"]:
            call_arguments.append(f"query={_format_mapping(query)}")
        if body := [argument for argument in arguments if argument.where == "body"]:
            call_arguments.append(f"body=drop_missing({_format_mapping(body)})")
        if any(argument.where == "whole body" for argument in arguments):
            call_arguments.append("body=body")
        if any(argument.where == "file" for argument in arguments):
            call_arguments += ["content=content", "content_type=content_type"]
        if is_idempotent:
            call_arguments.append("key=idempotency_key or new_idempotency_key()")
        if answer.call == "_request_bytes":
            call_arguments.append("known=known")
        define, wait = ("def", "") if is_sync else ("async def", "await ")
        head = _wrap_arguments(f"    {define} {operation['operationId']}(", signature, f") -> {answer.type}:")
        call = _wrap_arguments(
            f"        {'' if answer.type == 'None' else 'return '}{wait}self.{answer.call}(", call_arguments, ")"
        )
        return f"{head}\n{_format_docstring(operation, arguments)}\n{call}\n"

    def _list_arguments(self, operation: Schema) -> list[Argument]:
        arguments = [
            Argument(
                name=parameter["name"],
                type=self.format_type(parameter["schema"]),
                where=parameter["in"],
                required=parameter.get("required", False),
                default=parameter["schema"].get("default"),
                description=parameter.get("description", ""),
            )
            for parameter in operation.get("parameters", ())
            if parameter["name"].lower() not in CLIENT_HEADERS
        ]
        if unknown := [argument.name for argument in arguments if argument.where not in {"path", "query"}]:
            raise NotImplementedError(f"{operation['operationId']}: parameters {unknown}")
        parameter_names = {argument.name for argument in arguments}
        return sorted(
            [*arguments, *self._list_body_arguments(operation, parameter_names)],
            key=lambda argument: not argument.required,
        )

    def _list_body_arguments(self, operation: Schema, parameter_names: set[str]) -> list[Argument]:
        if "requestBody" not in operation:
            return []
        (kind, content), *more = operation["requestBody"]["content"].items()
        if kind == BYTES:
            return [
                Argument("content", "bytes", "file", True, None, "The bytes of the file."),
                Argument("content_type", "str", "file", False, BYTES, "Their media type, if it is known."),
            ]
        if kind != JSON or more:
            raise NotImplementedError(f"{operation['operationId']}: a body of {kind}")
        schema = self._drop_null(content["schema"])
        shapes = [self._resolve_reference(member) for member in schema.get("anyOf", [schema])]
        members = {name: member for shape in shapes for name, member in shape.get("properties", {}).items()}
        if not all("properties" in shape for shape in shapes) or parameter_names & set(members):
            required = operation["requestBody"].get("required", False)
            return [Argument("body", self.format_type(schema), "whole body", required)]
        always_required = set.intersection(*(set(shape.get("required", ())) for shape in shapes))
        return [
            Argument(
                name, self.format_type(member), "body", name in always_required, None, member.get("description", "")
            )
            for name, member in members.items()
        ]

    def _describe_answer(self, operation: Schema) -> Answer:
        responses = operation["responses"]
        good = [responses[status] for status in responses if status.startswith("2")]
        content: Schema = next((response["content"] for response in good if response.get("content")), {})
        if not content:
            return Answer("None", "_request_nothing")
        if "304" in responses or JSON not in content:
            return Answer("StoredBytes", "_request_bytes")
        kind = self.format_type(content[JSON]["schema"])
        if " | " in re.sub(r"\[.*\]", "", kind):
            raise NotImplementedError(f"{operation['operationId']}: an answer of several shapes")
        return Answer(kind, "_request_model", ("object" if kind == "Any" else kind,))

    # Models

    def write_models(self) -> str:
        return self._write_module("The bodies that the API answers and takes.", "\n\n\n".join(self._models.values()))

    def _write_module(self, summary: str, body: str) -> str:
        """A module with the imports that its body uses."""
        words = set(re.findall(r"\w+", body))
        imports = {module: [name for name in names if name in words] for module, names in IMPORTS.items()}
        if "class Operations(" in body or "class SyncOperations(" in body:
            imports["bpc_client.models"] = sorted(name for name in self._models if name in words)
        standard = [_format_import(module, names) for module, names in imports.items() if names and "." not in module]
        own = [
            _format_import(module, imports[module]) for module in sorted(imports) if "." in module and imports[module]
        ]
        blocks = ["\n".join(block) for block in (standard, own) if block]
        return f'"""{summary} {GENERATED_NOTE}"""\n\n' + "\n\n".join(blocks) + "\n\n\n" + body.rstrip("\n") + "\n"

    def format_type(self, schema: Schema) -> str:
        """Return a schema as a Python type; models that it names are written too."""
        if "$ref" in schema:
            return self._format_named_type(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return f"Literal[{_quote(schema['const'])}]"
        if "enum" in schema:
            return f"Literal[{', '.join(_quote(choice) for choice in schema['enum'])}]"
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return " | ".join(dict.fromkeys(self.format_type(choice) for choice in schema[several]))
        if "allOf" in schema and len(schema["allOf"]) == 1:
            return self.format_type(schema["allOf"][0])
        return self._format_simple_type(schema)

    def _format_simple_type(self, schema: Schema) -> str:
        match schema.get("type"):
            case "string":
                return STRING_FORMATS.get(schema.get("format", ""), "str")
            case "array":
                return f"list[{self.format_type(schema.get('items', {}))}]"
            case "object":
                further = schema.get("additionalProperties", True)
                return f"dict[str, {self.format_type(further) if isinstance(further, dict) else 'Any'}]"
            case None if not set(schema) & {"properties", "allOf", "not"}:
                return "Any"
            case known if isinstance(known, str) and known in PLAIN_TYPES:
                return PLAIN_TYPES[known]
            case list(several):
                return " | ".join(self._format_simple_type({**schema, "type": choice}) for choice in several)
            case unknown:
                raise NotImplementedError(f"a schema of type {unknown}: {schema}")

    def _format_named_type(self, schema_name: str) -> str:
        schema = self.document["components"]["schemas"][schema_name]
        properties = schema.get("properties", {})
        if set(properties) == {"items", "next_cursor"}:
            return f"Page[{self.format_type(properties['items']['items'])}]"
        name = _choose_class_name(schema_name, self.document["components"]["schemas"])
        if name in self._models:
            return name
        if name in self._unfinished:  # the model contains itself
            return f'"{name}"'
        self._unfinished.append(name)
        if "properties" in schema:
            text = self._write_model(name, schema)
        else:
            text = f"{name}: TypeAlias = {self.format_type(schema)}"
        self._unfinished.remove(name)
        self._models[name] = text
        return name

    def _write_model(self, name: str, schema: Schema) -> str:
        lines = [f"class {name}(Model):"]
        if description := schema.get("description", "").strip():
            lines.append(_format_quoted(description.partition("\n\n")[0], 4) + "\n")
        for member, member_schema in schema["properties"].items():
            if keyword.iskeyword(member):
                raise NotImplementedError(f"{name}: a member called {member}")
            kind = self.format_type(member_schema)
            optional = member not in schema.get("required", ())
            if optional and member_schema.get("default") is None and not kind.endswith("None"):
                kind = f"{kind} | None"
            default = f" = {member_schema.get('default')!r}" if optional else ""
            lines.append(f"    {member}: {kind}{default}")
            if description := member_schema.get("description", ""):
                lines.append(_format_quoted(description, 4))
        return "\n".join(lines)

    def _resolve_reference(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            *_, section, name = schema["$ref"].split("/")
            target: Schema = self.document["components"][section][name]
            return target
        return schema

    def _drop_null(self, schema: Schema) -> Schema:
        """The schema of an optional body is the body or null; return the body."""
        choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
        body: Schema = choices[0] if len(choices) == 1 else schema
        return body


def _choose_class_name(schema_name: str, every: Mapping[str, Any]) -> str:
    """FastAPI puts the module before a name that two modules use, and a suffix after one that is sent and answered."""
    short = re.sub(r"\W+", "", schema_name.rpartition("__")[2])
    same = [name for name in every if re.sub(r"\W+", "", name.rpartition("__")[2]) == short]
    if len(same) == 1:
        return short
    return "".join(word.capitalize() for word in re.split(r"_+", schema_name.replace("bpc__api__routes__", "")))


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _format_path(path: str, texts_with_slashes: set[str]) -> str:
    """The path as a string literal; ids become `{quote_path_part(id)}` of an f-string."""

    def format_part(match: re.Match[str]) -> str:
        return f"{{quote_path({match[1]})}}" if match[1] in texts_with_slashes else f"{{quote_path_part({match[1]})}}"

    quoted = _quote(re.sub(r"\{(\w+)\}", format_part, path))
    return f"f{quoted}" if "{" in path else quoted


def _format_mapping(arguments: list[Argument]) -> str:
    return "{" + ", ".join(f'"{argument.name}": {argument.python_name}' for argument in arguments) + "}"


def _wrap_arguments(opening: str, arguments: list[str], closing: str) -> str:
    """One line if it fits, else a line for each argument."""
    line = opening + ", ".join(arguments) + closing
    if len(line) <= WIDTH + 20:
        return line
    indent = " " * (len(opening) - len(opening.lstrip()))
    lines = [f"{indent}    {argument}," for argument in arguments]
    return "\n".join([opening, *lines, indent + closing])


def _format_import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _format_docstring(operation: Schema, arguments: list[Argument]) -> str:
    text = operation.get("description", operation.get("summary", "")).strip().replace("\n\n", " ").replace("\n", " ")
    if permission := operation.get("x-permission"):
        text = text if text.endswith(".") else f"{text}."
        text += f" Needs `{permission}`."
    argument_lines = [
        f"{argument.python_name}: {argument.description}"
        for argument in arguments
        if argument.description and argument.name not in PAGING
    ]
    if not argument_lines:
        return _format_quoted(text, 8)
    wrapped = [textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in argument_lines]
    paragraphs = "\n".join([textwrap.fill(text, WIDTH), "", *wrapped])
    return textwrap.indent(f'"""{paragraphs}\n"""', " " * 8)


def _format_quoted(text: str, indent: int) -> str:
    words = textwrap.fill(" ".join(text.split()), WIDTH)
    return textwrap.indent(f'"""{words}"""' if "\n" not in words else f'"""{words}\n"""', " " * indent)
