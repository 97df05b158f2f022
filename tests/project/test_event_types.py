"""Every type of event that the code puts on record is on the page about events, and no other is."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from bpc.core.webhooks import WEBHOOK_TYPES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bpc"
PAGE = ROOT / "docs" / "formats" / "events.md"
POSITIONS = {"new_event": 0, "append_act": 5, "append_and_announce": 5}  # where the event type is among the arguments
TYPE = re.compile(r"[A-Z]+(_[A-Z]+)+|RetentionApplied")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _parse_modules() -> list[ast.Module]:
    return [ast.parse(file.read_bytes()) for file in sorted(SOURCE.rglob("*.py"))]


def _find_event_types(trees: list[ast.Module]) -> Iterator[str]:
    """Yield the event type of every call that makes an event: a text, a constant, or what callers give a function."""
    constants = {name: text for tree in trees for name, text in _read_constants(tree)}
    calls = _index_calls(trees)
    for tree in trees:
        for function in _list_outer_functions(tree):
            if function.name in POSITIONS:  # it passes on the type that its callers name
                continue
            for first in _find_type_arguments(function):
                if isinstance(first, ast.Constant):
                    yield str(first.value)
                elif isinstance(first, ast.Name) and first.id in constants:
                    yield constants[first.id]
                else:
                    literals = [*_find_passed_types(calls[function.name]), *_find_chosen_types(function)]
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


def _list_outer_functions(tree: ast.AST) -> Iterator[Function]:
    """Functions and methods; those inside of another function are a part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _list_outer_functions(node)


def _index_calls(trees: list[ast.Module]) -> Mapping[str, list[tuple[Function, ast.Call]]]:
    """Every call of a function by its bare name, with the function that it stands in."""
    calls: defaultdict[str, list[tuple[Function, ast.Call]]] = defaultdict(list)
    for tree in trees:
        for caller in _list_outer_functions(tree):
            for call in ast.walk(caller):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    calls[call.func.id].append((caller, call))
    return calls


def _find_passed_types(calls: list[tuple[Function, ast.Call]]) -> Iterator[str]:
    """Yield what callers of a function pass to it: texts, or a name that they chose a text for."""
    for caller, call in calls:
        yield from (text for argument in call.args for text in _list_types(argument))
        yield from _find_chosen_types(caller)


def _find_chosen_types(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id="event_type")], value=value):
                yield from _list_types(value)
            case _:
                pass


def _list_types(expression: ast.AST) -> list[str]:
    texts = [node.value for node in ast.walk(expression) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and TYPE.fullmatch(text)]


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
