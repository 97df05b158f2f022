"""Write src/bpc/client/models.py and operations.py: the API's OpenAPI document as Python.

    create_app(None).openapi() ─► Writer ─► ruff format ─► two files

An operation becomes a method of its name: ids of the path by position, members of the body and parameters of the query
by name. An answer becomes a model. What the document uses and this does not know stops it, so that nothing is guessed.
"""

import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from bpc.api.app import create_app

Schema: TypeAlias = Mapping[str, Any]

FOLDER: Final = Path(__file__).parent.parent / "src" / "bpc" / "client"
RUFF: Final = Path(sys.executable).with_name("ruff")
MADE: Final = "Made by `make cases` from the API's OpenAPI document; do not edit."
JSON: Final = "application/json"
CLASS: Final = '''\
class Operations(Calls):
    """The operations, in the order of the document.

    Lists take `limit`, how many items a page has at most, and `cursor`, the `next_cursor` of the page before. Writes
    take an `idempotency_key`; without one they get a new one.
    """

'''
OURS: Final = frozenset({"idempotency-key", "if-none-match"})  # headers that the client fills in
PLAIN: Final = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}
FORMATS: Final = {"uuid": "UUID", "date-time": "datetime"}
PAGING: Final = frozenset({"limit", "cursor"})  # the same everywhere
WIDTH: Final = 100


def document() -> dict[str, Any]:
    """What the API says of itself."""
    return create_app(None).openapi()


def written(of: Mapping[str, Any]) -> dict[str, str]:
    """The text of each file, formatted."""
    writer = Writer(of)
    operations = writer.operations()
    return {"models.py": _formatted(writer.models()), "operations.py": _formatted(operations)}


@dataclass(slots=True)
class Argument:
    """One argument of a method."""

    name: str
    type: str
    where: str  # path, query or body
    required: bool
    default: Any = None
    says: str = ""

    @property
    def shown(self) -> str:
        if self.required:
            return f"{self.python}: {self.type}"
        kind = self.type if self.default is not None or self.type.endswith("| None") else f"{self.type} | None"
        return f"{self.python}: {kind} = {self.default!r}"

    @property
    def python(self) -> str:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()
        return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(slots=True)
class Writer:
    """One document, and the models that its operations turned out to need."""

    document: Mapping[str, Any]
    _needed: dict[str, str] = field(default_factory=dict)  # in the order in which they can be defined
    _open: list[str] = field(default_factory=list)

    # Operations

    def operations(self) -> str:
        methods = [self._method(*each) for each in self._every()]
        used = sorted(name for name in self._needed if re.search(rf"\b{name}\b", "".join(methods)))
        imports = [
            "from typing import Any, Literal",
            "from uuid import UUID",
            "from datetime import datetime",
            "from bpc.client.calls import Calls, given, new_key, part",
            f"from bpc.client.models import {', '.join(used)}" if used else "",
            "from bpc.client.shapes import Page, Stored",
        ]
        top = f'"""Every operation of the API. {MADE}"""\n# ruff: noqa: A002\n\n'
        return top + "\n".join(imports) + "\n\n\n" + CLASS + "\n\n".join(methods) + "\n"

    def _every(self) -> Iterator[tuple[str, str, Schema]]:
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method.upper(), operation

    def _method(self, path: str, method: str, operation: Schema) -> str:
        arguments = self._arguments(operation)
        answer, call, gives = self._answer(operation)
        first = ["self", *(each.shown for each in arguments if each.where == "path")]
        named = [each.shown for each in arguments if each.where != "path"]
        keyed = any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
        if keyed:
            named.append("idempotency_key: str | None = None")
        if gives == "_stored":
            named.append("known: Stored | None = None")
        if named:
            named.insert(0, "*")
        sent = [repr(method), _path(path)]
        query = [each for each in arguments if each.where == "query"]
        body = [each for each in arguments if each.where == "body"]
        whole = [each for each in arguments if each.where == "whole body"]
        if query:
            sent.append("query={" + ", ".join(f"{each.name!r}: {each.python}" for each in query) + "}")
        if body:
            sent.append("body=given({" + ", ".join(f"{each.name!r}: {each.python}" for each in body) + "})")
        if whole:
            sent.append("body=body")
        if keyed:
            sent.append("key=idempotency_key or new_key()")
        if gives == "_stored":
            sent.append("known=known")
        result = "await" if answer == "None" else "return await"
        return (
            f"    async def {operation['operationId']}({', '.join([*first, *named])}) -> {answer}:\n"
            f"{_docstring(operation, arguments)}\n"
            f"        {result} self.{gives}({', '.join([*call, *sent])})\n"
        )

    def _arguments(self, operation: Schema) -> list[Argument]:
        found = [
            Argument(
                name=each["name"],
                type=self.type_of(each["schema"]),
                where=each["in"],
                required=each.get("required", False),
                default=each["schema"].get("default"),
                says=each.get("description", ""),
            )
            for each in operation.get("parameters", ())
            if each["name"].lower() not in OURS
        ]
        if unknown := [each.name for each in found if each.where not in {"path", "query"}]:
            raise NotImplementedError(f"{operation['operationId']}: parameters {unknown}")
        taken = {each.name for each in found}
        return sorted([*found, *self._body(operation, taken)], key=lambda each: not each.required)

    def _body(self, operation: Schema, taken: set[str]) -> list[Argument]:
        if "requestBody" not in operation:
            return []
        (kind, content), *more = operation["requestBody"]["content"].items()
        if kind != JSON or more:
            raise NotImplementedError(f"{operation['operationId']}: a body of {kind}")
        schema = self._without_null(content["schema"])
        shapes = [self._resolved(each) for each in schema.get("anyOf", [schema])]
        members = {name: each for shape in shapes for name, each in shape.get("properties", {}).items()}
        if not all("properties" in shape for shape in shapes) or taken & set(members):
            required = operation["requestBody"].get("required", False)
            return [Argument("body", self.type_of(schema), "whole body", required)]
        must = set.intersection(*(set(shape.get("required", ())) for shape in shapes))
        return [
            Argument(name, self.type_of(each), "body", name in must, None, each.get("description", ""))
            for name, each in members.items()
        ]

    def _answer(self, operation: Schema) -> tuple[str, list[str], str]:
        """What the method returns, what it says of that to `Calls`, and which way of calling that is."""
        responses = operation["responses"]
        good = [responses[status] for status in responses if status.startswith("2")]
        content: Schema = next((each["content"] for each in good if each.get("content")), {})
        if not content:
            return "None", [], "_nothing"
        if "304" in responses or JSON not in content:
            return "Stored", [], "_stored"
        kind = self.type_of(content[JSON]["schema"])
        if " | " in re.sub(r"\[.*\]", "", kind):
            raise NotImplementedError(f"{operation['operationId']}: an answer of several shapes")
        return (kind, ["object"], "_json") if kind == "Any" else (kind, [kind], "_json")

    # Models

    def models(self) -> str:
        head = [
            f'"""The bodies that the API answers and takes. {MADE}"""',
            "",
            "from datetime import datetime",
            "from typing import Any, Literal, TypeAlias",
            "from uuid import UUID",
            "from bpc.client.shapes import Model, Page",
        ]
        return "\n".join(head) + "\n\n\n" + "\n\n\n".join(self._needed.values()) + "\n"

    def type_of(self, schema: Schema) -> str:
        """A schema as a type; models that it names are written too."""
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(repr(each) for each in schema['enum'])}]"
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return " | ".join(dict.fromkeys(self.type_of(each) for each in schema[several]))
        if "allOf" in schema and len(schema["allOf"]) == 1:
            return self.type_of(schema["allOf"][0])
        return self._simple(schema)

    def _simple(self, schema: Schema) -> str:
        match schema.get("type"):
            case "string":
                return FORMATS.get(schema.get("format", ""), "str")
            case "array":
                return f"list[{self.type_of(schema.get('items', {}))}]"
            case "object":
                further = schema.get("additionalProperties", True)
                return f"dict[str, {self.type_of(further) if isinstance(further, dict) else 'Any'}]"
            case None if not set(schema) & {"properties", "allOf", "not"}:
                return "Any"
            case known if isinstance(known, str) and known in PLAIN:
                return PLAIN[known]
            case list(several):
                return " | ".join(self._simple({**schema, "type": each}) for each in several)
            case unknown:
                raise NotImplementedError(f"a schema of type {unknown}: {schema}")

    def _named(self, schema_name: str) -> str:
        schema = self.document["components"]["schemas"][schema_name]
        properties = schema.get("properties", {})
        if set(properties) == {"items", "next_cursor"}:
            return f"Page[{self.type_of(properties['items']['items'])}]"
        name = _class_name(schema_name, self.document["components"]["schemas"])
        if name in self._needed:
            return name
        if name in self._open:  # it holds itself
            return f'"{name}"'
        self._open.append(name)
        text = self._model(name, schema) if "properties" in schema else f"{name}: TypeAlias = {self.type_of(schema)}"
        self._open.remove(name)
        self._needed[name] = text
        return name

    def _model(self, name: str, schema: Schema) -> str:
        lines = [f"class {name}(Model):"]
        if says := schema.get("description", "").strip():
            lines.append(_quoted(says.partition("\n\n")[0], 4) + "\n")
        for member, each in schema["properties"].items():
            if keyword.iskeyword(member):
                raise NotImplementedError(f"{name}: a member called {member}")
            kind = self.type_of(each)
            optional = member not in schema.get("required", ())
            if optional and each.get("default") is None and not kind.endswith("None"):
                kind = f"{kind} | None"
            default = f" = {each.get('default')!r}" if optional else ""
            lines.append(f"    {member}: {kind}{default}")
            if says := each.get("description", ""):
                lines.append(_quoted(says, 4))
        return "\n".join(lines)

    def _resolved(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            found: Schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            return found
        return schema

    def _without_null(self, schema: Schema) -> Schema:
        """A body that may be left out is the body or null."""
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        found: Schema = choices[0] if len(choices) == 1 else schema
        return found


def _class_name(schema_name: str, every: Mapping[str, Any]) -> str:
    """FastAPI puts the module before a name that two modules use, and a suffix after one that is sent and answered."""
    short = re.sub(r"\W+", "", schema_name.rpartition("__")[2])
    same = [name for name in every if re.sub(r"\W+", "", name.rpartition("__")[2]) == short]
    if len(same) == 1:
        return short
    return "".join(word.capitalize() for word in re.split(r"_+", schema_name.replace("bpc__api__routes__", "")))


def _path(path: str) -> str:
    names = re.findall(r"\{(\w+)\}", path)
    return "f" + repr(re.sub(r"\{(\w+)\}", r"{part(\1)}", path)) if names else repr(path)


def _docstring(operation: Schema, arguments: list[Argument]) -> str:
    says = operation.get("description", operation.get("summary", "")).strip().replace("\n\n", " ").replace("\n", " ")
    if permission := operation.get("x-permission"):
        says = says if says.endswith(".") else f"{says}."
        says += f" Needs `{permission}`."
    told = [f"{each.python}: {each.says}" for each in arguments if each.says and each.name not in PAGING]
    if not told:
        return _quoted(says, 8)
    wrapped = [textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in told]
    whole = "\n".join([textwrap.fill(says, WIDTH), "", *wrapped])
    return textwrap.indent(f'"""{whole}\n"""', " " * 8)


def _quoted(says: str, indent: int) -> str:
    words = textwrap.fill(" ".join(says.split()), WIDTH)
    return textwrap.indent(f'"""{words}"""' if "\n" not in words else f'"""{words}\n"""', " " * indent)


def _formatted(text: str) -> str:
    """By ruff: imports that nothing uses go, the others are sorted."""
    for arguments in (["check", "--fix-only", "--select", "F401,I,UP", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [RUFF, *arguments, "--stdin-filename", FOLDER / "made.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def main() -> None:
    for name, text in written(document()).items():
        path = FOLDER / name
        changed = not path.exists() or path.read_text() != text
        path.write_text(text)
        print(f"{path.name}: {'rewritten, read the diff' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
