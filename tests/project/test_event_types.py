"""Every type of event that the code puts on record is on the page about events, and no other is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bpc.core.webhooks import ANNOUNCED

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bpc"
PAGE = ROOT / "docs" / "formats" / "events.md"
TYPE = re.compile(r"[A-Z]+(_[A-Z]+)+|RetentionApplied")


def _trees() -> list[ast.Module]:
    return [ast.parse(file.read_bytes()) for file in sorted(SOURCE.rglob("*.py"))]


def _said(trees: list[ast.Module]) -> Iterator[str]:
    """The first argument of every `….says(…)`: a text, the name of a constant, or what callers give a function."""
    constants = {name: text for tree in trees for name, text in _constants(tree)}
    for tree in trees:
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
            for first in _firsts(function):
                if isinstance(first, ast.Constant):
                    yield str(first.value)
                elif isinstance(first, ast.Name) and first.id in constants:
                    yield constants[first.id]
                else:
                    given = list(_given(tree, function.name))
                    assert given, f"{function.name} says what no test can find: line {first.lineno}"
                    yield from given


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))) if TYPE.fullmatch(text):
                yield name, text


def _firsts(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "says":
            yield node.args[0]


def _given(tree: ast.Module, function: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            yield from (text for text in texts if isinstance(text, str) and TYPE.fullmatch(text))


def _documented() -> list[tuple[str, bool]]:
    """The types in the table, each with whether it has a star."""
    table = PAGE.read_text().split("## Types\n")[1].split("\n## ")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    found = [match for cell in cells for match in re.finditer(r"`(\w+)`( \*)?", cell) if match[1] != "event_type"]
    return [(match[1], match[2] is not None) for match in found]


def test_the_page_names_every_type_that_is_put_on_record_and_no_other() -> None:
    named = [name for name, _ in _documented()]

    assert len(named) == len(set(named))
    assert set(named) == set(_said(_trees()))


def test_the_page_marks_those_that_webhooks_are_sent_for() -> None:
    assert {name for name, is_announced in _documented() if is_announced} == set(ANNOUNCED)
