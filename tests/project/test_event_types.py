"""Every type of event that the code puts on record is on the page about events, and no other is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bpc.core.webhooks import WEBHOOK_TYPES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bpc"
PAGE = ROOT / "docs" / "formats" / "events.md"
POSITIONS = {"new_event": 0, "append_act": 5, "append_and_announce": 5}  # where the event type is among the arguments
TYPE = re.compile(r"[A-Z]+(_[A-Z]+)+|RetentionApplied")


def _parse_modules() -> list[ast.Module]:
    return [ast.parse(file.read_bytes()) for file in sorted(SOURCE.rglob("*.py"))]


def _find_event_types(trees: list[ast.Module]) -> Iterator[str]:
    """Yield the event type of every call that makes an event: a text, a constant, or what callers give a function."""
    constants = {name: text for tree in trees for name, text in _read_constants(tree)}
    for tree in trees:
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
            if function.name in POSITIONS:  # it passes on the type that its callers name
                continue
            for first in _find_type_arguments(function):
                if isinstance(first, ast.Constant):
                    yield str(first.value)
                elif isinstance(first, ast.Name) and first.id in constants:
                    yield constants[first.id]
                else:
                    literals = list(_find_literals(tree, function.name))
                    assert literals, f"{function.name} makes an event whose type no test can find: line {first.lineno}"
                    yield from literals


def _read_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))) if TYPE.fullmatch(text):
                yield name, text


def _find_type_arguments(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in POSITIONS:
                yield node.args[POSITIONS[name]]


def _find_literals(tree: ast.Module, function: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            yield from (text for text in texts if isinstance(text, str) and TYPE.fullmatch(text))


def _read_documented() -> list[tuple[str, bool]]:
    """The types in the table, each with whether it has a star."""
    table = PAGE.read_text().split("## Types\n")[1].split("\n## ")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    matches = [match for cell in cells for match in re.finditer(r"`(\w+)`( \*)?", cell) if match[1] != "event_type"]
    return [(match[1], match[2] is not None) for match in matches]


def test_the_page_names_every_type_that_is_put_on_record_and_no_other() -> None:
    named = [name for name, _ in _read_documented()]

    assert len(named) == len(set(named))
    assert set(named) == set(_find_event_types(_parse_modules()))


def test_the_page_marks_those_that_webhooks_are_sent_for() -> None:
    assert {name for name, is_announced in _read_documented() if is_announced} == set(WEBHOOK_TYPES)
