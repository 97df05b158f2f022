"""What is not there, or cannot be done as things are, comes with a next step: a code alone is a wall."""

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "bpc"
# A trigger's own sentence, which says what never changes: there is no way around it.
WITHOUT = {"db/failures.py: Conflict(said, details={'constraint': name})"}


def test_whatever_is_not_found_or_in_conflict_says_what_to_do_next() -> None:
    calls, classes = list[tuple[str, ast.Call]](), list[tuple[str, ast.ClassDef]]()
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                classes.append((name, node))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"NotFound", "Conflict"}:
                calls.append((name, node))
    kinds = _below(classes, {"NotFound", "Conflict"})
    calls += [(name, call) for name, node in classes if node.name in kinds for call in _own_words(node)]

    without = {
        f"{name}: {ast.unparse(call)}"
        for name, call in calls
        if not {keyword.arg for keyword in call.keywords} & {"fix", None}
    }

    assert len(calls) > 50
    assert without == WITHOUT


def _below(classes: list[tuple[str, ast.ClassDef]], kinds: set[str]) -> set[str]:
    """These classes, and all that are made of them."""
    found = kinds | {node.name for _, node in classes if {getattr(base, "id", "") for base in node.bases} & kinds}
    return kinds if found == kinds else _below(classes, found)


def _own_words(node: ast.ClassDef) -> list[ast.Call]:
    """The call in a class that gives it its words, if it has its own."""
    within = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    return [call for call in within if getattr(call.func, "attr", "") == "__init__"]
